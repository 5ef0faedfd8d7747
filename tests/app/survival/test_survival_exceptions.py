"""Whatever a tool raises, wherever it raises it: one call fails, and says nothing but a reference."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kits.survival.fault_kit import REFERENCE, refused, unharmed
from tests.kits.survival.fault_tools import raised

ENDS = [kind for kind in raised() if kind.startswith(("BaseException", "a BaseException", "SystemExit", "Keyboard"))]

AWAITED = ["awaited", "gather", "asyncio.TaskGroup", "anyio task group"]
UNHEARD = ["never awaited", "left behind", "call_soon", "call_later"]


@pytest.mark.parametrize("tool", ["raises", "raises_async", "raises_later"])
@pytest.mark.parametrize("kind", raised())
def test_whatever_a_tool_raises_is_answered_with_a_reference_alone(server: Any, tool: str, kind: str) -> None:
    with unharmed(server):
        answer = refused(server.result(tool, kind=kind))
    assert REFERENCE.match(answer)
    server.says(answer[-14:-2])


@pytest.mark.parametrize("how", AWAITED)
@pytest.mark.parametrize("kind", ENDS)
def test_what_a_child_task_raises_reaches_the_call_that_awaits_it(server: Any, kind: str, how: str) -> None:
    with unharmed(server):
        assert REFERENCE.match(refused(server.result("in_child", kind=kind, how=how)))


@pytest.mark.parametrize("how", UNHEARD)
@pytest.mark.parametrize("kind", ENDS)
def test_what_nobody_awaits_ends_neither_the_call_nor_the_loop(server: Any, kind: str, how: str) -> None:
    with unharmed(server):
        assert server.text("in_child", kind=kind, how=how) == "answered"


@pytest.mark.parametrize("kind", ENDS)
def test_what_a_thread_has_the_loop_raise_comes_back_to_the_thread(server: Any, kind: str) -> None:
    with unharmed(server):
        assert REFERENCE.match(refused(server.result("from_a_thread", kind=kind)))


@pytest.mark.parametrize("tool", ["recurses", "recurses_async"])
def test_endless_recursion_fails_the_call(server: Any, tool: str) -> None:
    with unharmed(server):
        assert REFERENCE.match(refused(server.result(tool)))


def test_a_tool_that_cancels_itself_and_waits_fails(server: Any) -> None:
    with unharmed(server):
        assert REFERENCE.match(refused(server.result("cancels_itself", how="and waits")))


@pytest.mark.parametrize("how", ["and goes on", "and returns"])
def test_a_tool_that_cancels_itself_and_answers_is_heard(server: Any, how: str) -> None:
    with unharmed(server):
        assert server.text("cancels_itself", how=how) == "answered"
