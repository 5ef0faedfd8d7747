"""The TypeScript client rejects results that break a format, and accepts every result of typed functions."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.kits.node import format_tools
from tests.kits.node.toolchain import HERE, Toolchain, decoded, run

pytestmark = [pytest.mark.npm, pytest.mark.timeout(300)]
NAMES = ["clock", "dataclass", "length", "lengths", "model", "moment", "texts", "typed_dict"]
"""The tools whose output schemas come from their types."""


def test_results_of_typed_functions_are_accepted(node: Toolchain, home: Path) -> None:
    calls = [{"name": name, "arguments": {}} for name in [*NAMES, "promised"]]
    target = [sys.executable, "-m", "mcp_bridge", "serve", format_tools.__file__]
    options = ["--transport", "stdio", "--target", json.dumps(target), "--calls", json.dumps(calls)]
    process = run([node.node, HERE / "client.mjs", *options], node.environment(home), 120, home)
    assert process.returncode == 0, process.stderr
    *results, promised = decoded(process.stdout)["results"]
    assert {entry["name"]: entry.get("error") for entry in results} == dict.fromkeys(NAMES)
    assert not [entry for entry in results if entry["result"].get("isError")]
    # The client checks formats: it rejects the one result whose author has promised a format.
    assert "date-time" in promised["error"]["message"]
