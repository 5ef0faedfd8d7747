"""An exception of a tool fails one call, and the client receives only a reference to the log."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kits.survival.fault_kit import REFERENCE, assert_unharmed, get_error_text
from tests.kits.survival.fault_tools import list_exceptions
from tests.kits.survival.survival_kit import ON_ONE_WAY, on_one_way

EXIT, INTERRUPT, BASE = "SystemExit with a code", "KeyboardInterrupt", "BaseException"
AWAITED = ["awaited", "gather", "asyncio.TaskGroup", "anyio task group"]
UNHEARD = ["never awaited", "left behind", "call_soon", "call_later"]
IN_A_THREAD = [EXIT, "StopIteration", "GeneratorExit", "CancelledError", "an exception whose text recurses"]
LATER = [INTERRUPT, "StopAsyncIteration", "a group with SystemExit"]
RAISED = [
    *(("raises_async", kind) for kind in list_exceptions()),
    *(("raises", kind) for kind in IN_A_THREAD),
    *(("raises_later", kind) for kind in LATER),
]
SMOKE = [("raises_async", EXIT), ("raises", BASE), ("raises_later", INTERRUPT)]


def list_child_cases(hows: list[str]) -> list[tuple[str, str]]:
    """Return every place with SystemExit, and the first and the last place with the other exceptions."""
    return [
        *((how, EXIT) for how in hows),
        *((how, error) for how in (hows[0], hows[-1]) for error in (INTERRUPT, BASE)),
    ]


@on_one_way("raising", RAISED, smoke=SMOKE)
def test_for_any_exception_of_a_tool_the_client_receives_only_a_reference(
    server: Any, raising: tuple[str, str]
) -> None:
    tool, error = raising
    with assert_unharmed(server):
        answer = get_error_text(server.get_result(tool, kind=error))
    assert REFERENCE.match(answer)
    server.wait_for_stderr(answer[-14:-2])


@ON_ONE_WAY
@pytest.mark.parametrize(("how", "kind"), list_child_cases(AWAITED))
def test_an_error_in_a_child_task_reaches_the_call_that_awaits_it(server: Any, kind: str, how: str) -> None:
    with assert_unharmed(server):
        assert REFERENCE.match(get_error_text(server.get_result("in_child", kind=kind, how=how)))


@ON_ONE_WAY
@pytest.mark.parametrize(("how", "kind"), list_child_cases(UNHEARD))
def test_an_error_in_an_abandoned_task_does_not_end_the_call_or_the_loop(server: Any, kind: str, how: str) -> None:
    with assert_unharmed(server):
        assert server.get_text("in_child", kind=kind, how=how) == "answered"


@ON_ONE_WAY
@pytest.mark.parametrize("kind", [EXIT, INTERRUPT])
def test_an_error_in_the_event_loop_is_raised_in_the_waiting_thread(server: Any, kind: str) -> None:
    with assert_unharmed(server):
        assert REFERENCE.match(get_error_text(server.get_result("from_a_thread", kind=kind)))


@ON_ONE_WAY
@pytest.mark.parametrize("tool", ["recurses", "recurses_async"])
def test_endless_recursion_fails_the_call(server: Any, tool: str) -> None:
    with assert_unharmed(server):
        assert REFERENCE.match(get_error_text(server.get_result(tool)))


@ON_ONE_WAY
def test_a_tool_that_cancels_itself_and_waits_fails(server: Any) -> None:
    with assert_unharmed(server):
        assert REFERENCE.match(get_error_text(server.get_result("cancels_itself", how="and waits")))


@ON_ONE_WAY
@pytest.mark.parametrize("how", ["and goes on", "and returns"])
def test_a_tool_that_cancels_itself_and_returns_gives_its_result(server: Any, how: str) -> None:
    with assert_unharmed(server):
        assert server.get_text("cancels_itself", how=how) == "answered"
