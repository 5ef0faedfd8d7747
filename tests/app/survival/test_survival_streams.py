"""Whatever a tool does to the standard streams: the client hears the protocol alone."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.kits.paths import KITS
from tests.kits.survival.fault_kit import refused, still_serves, unharmed
from tests.kits.survival.fault_tools import stream_faults
from tests.kits.survival.survival_kit import Way, live

TOOLS = ["streams", "streams_async"]
TOOLS_FILE = KITS / "survival" / "fault_tools.py"
LASTING = [kind for kind in stream_faults() if kind.endswith(("closed", "gone", "replaced"))]
PASSING = [kind for kind in stream_faults() if kind not in {*LASTING, "input"}]


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("kind", PASSING)
def test_a_tool_may_print_and_read_as_it_likes(server: Any, tool: str, kind: str) -> None:
    with unharmed(server):
        assert server.text(tool, kind=kind).startswith("answered")


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_that_asks_on_standard_input_is_not_answered(server: Any, tool: str) -> None:
    with unharmed(server):
        assert "internal error (reference " in refused(server.result(tool, kind="input"))
    server.says("EOFError")


@pytest.mark.parametrize("kind", LASTING)
def test_streams_that_a_tool_closes_or_replaces_are_not_missed(way: Way, tmp_path: Path, kind: str) -> None:
    with live(way, tmp_path, TOOLS_FILE) as server:
        with server.neighbour():
            assert server.text("streams", kind=kind).startswith("answered")
        still_serves(server)
        server.signal(signal.SIGTERM)
        assert server.ends() == 0
