"""The TypeScript client can use every output schema, and accepts every result."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.kits.node import format_tools
from tests.kits.node.toolchain import HERE, Toolchain, parse_output, run

pytestmark = pytest.mark.npm
NAMES = [
    *("clock", "dataclass", "length", "lengths", "letters", "model", "moment", "parts", "price", "promised"),
    *("texts", "typed_dict", "word"),
]


def test_the_client_accepts_every_output_schema_and_result(node: Toolchain, home: Path) -> None:
    calls = [{"name": name, "arguments": {}} for name in NAMES]
    target = [sys.executable, "-m", "mcp_bridge", "serve", format_tools.__file__]
    options = ["--transport", "stdio", "--target", json.dumps(target), "--calls", json.dumps(calls)]
    process = run([node.node, HERE / "client.mjs", *options], node.environment(home), 120, home)
    assert process.returncode == 0, process.stderr
    results = parse_output(process.stdout)["results"]
    assert {entry["name"]: entry.get("error") for entry in results} == dict.fromkeys(NAMES)
    assert not [entry for entry in results if entry["result"].get("isError")]
