"""A tool with access to the standard streams cannot disturb the messages to the client."""

from __future__ import annotations

import signal
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from tests.client.server_process import Way
from tests.kits.paths import KITS
from tests.kits.survival.fault_kit import assert_still_serves, assert_unharmed, get_error_text
from tests.kits.survival.fault_tools import list_stream_faults
from tests.kits.survival.survival_kit import ON_BOTH_WAYS, ON_ONE_WAY, on_one_way, run_server

TOOLS_FILE = KITS / "survival" / "fault_tools.py"
LASTING = {
    "objects": ["stdout closed", "stdout gone", "stdout replaced", "stderr replaced"],
    "descriptor 0": ["descriptor 0 closed"],
    "descriptor 1": ["descriptor 1 closed"],
    "descriptor 2": ["descriptor 2 closed"],
}
PASSING = [kind for kind in list_stream_faults() if kind not in {"input", *chain(*LASTING.values())}]


@on_one_way("kind", PASSING, smoke=["print", "a write to descriptor 1", "a read of descriptor 0"])
def test_a_tool_can_print_and_read_without_reaching_the_client(server: Any, kind: str) -> None:
    with assert_unharmed(server):
        assert server.get_text("streams", kind=kind).startswith("answered")


@ON_ONE_WAY
@pytest.mark.parametrize("operation", ["print", "sys.stdin.read"])
def test_a_tool_on_the_event_loop_may_do_so_too(server: Any, operation: str) -> None:
    with assert_unharmed(server):
        assert server.get_text("streams_async", kind=operation).startswith("answered")


@ON_BOTH_WAYS
def test_a_tool_that_reads_standard_input_gets_its_end(server: Any) -> None:
    with assert_unharmed(server):
        assert "internal error (reference " in get_error_text(server.get_result("streams", kind="input"))
    server.wait_for_stderr("EOFError")


@on_one_way("what", LASTING, smoke=["descriptor 1"])
def test_a_tool_that_closes_or_replaces_the_standard_streams_has_no_effect(way: Way, tmp_path: Path, what: str) -> None:
    with run_server(way, tmp_path, TOOLS_FILE) as server:
        for operation in LASTING[what]:
            with server.keep_call_in_flight():
                assert server.get_text("streams", kind=operation).startswith("answered")
            assert_still_serves(server)
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
