"""Handlers with exceptions, without an end, and with cancellations."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import anyio
import pytest

from mcp_bridge import ToolCall, ToolEntry, ToolRegistry
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._integrations.amplifier.hooks import pause_handler_clock
from mcp_bridge.amplifier import HookRegistry, HookResult
from mcp_bridge.amplifier.testing import EventRecorder
from tests.kits.constants import TIMEOUT
from tests.kits.loops import BOTH_LOOPS


class Odd(Exception):
    """An error without a text."""

    def __str__(self) -> str:
        raise RuntimeError("cannot be told")


FAILURES = [
    ValueError("no"),
    TimeoutError(),
    SystemExit(1),
    KeyboardInterrupt(),
    BaseExceptionGroup("both", [SystemExit(1), ValueError()]),
    ExceptionGroup("group", [ValueError()]),
    Odd(),
    StopAsyncIteration(),
    asyncio.CancelledError(),
]


def make_raising_handler(error: BaseException, *, waits: bool) -> Any:
    """Return a handler that raises an exception, immediately or after a wait."""

    async def handler(event: str, data: dict[str, Any]) -> None:
        if waits:
            await anyio.lowlevel.checkpoint()
        raise error

    return handler


AT_ONCE = [ValueError("no"), SystemExit(1), asyncio.CancelledError()]


@pytest.mark.parametrize(
    ("error", "waits"),
    [*((error, True) for error in FAILURES), *((error, False) for error in AT_ONCE)],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "later" if value else "at once",
)
@BOTH_LOOPS
async def test_a_handler_that_raises_denies_a_call_and_is_skipped_for_other_events(
    error: BaseException, waits: bool
) -> None:
    hooks, recorder = HookRegistry(), EventRecorder()
    for event in ("tool:pre", "tool:post"):
        hooks.register(event, make_raising_handler(error, waits=waits), name="bad")
        hooks.register(event, recorder)
    denial = await hooks.emit("tool:pre")
    assert (denial.action, denial.reason) == ("deny", "The hook 'bad' failed, so the operation is denied.")
    assert (await hooks.emit("tool:post")).action == "continue"
    assert [event for event, _ in recorder.events] == ["tool:post"]


async def test_which_events_fail_closed_can_be_set() -> None:
    hooks = HookRegistry(fail_closed=["prompt:submit"])
    for event in ("tool:pre", "prompt:submit"):
        hooks.register(event, make_raising_handler(ValueError(), waits=False))
    assert (await hooks.emit("tool:pre")).action == "continue"
    assert (await hooks.emit("prompt:submit")).action == "deny"


async def hang(event: str, data: dict[str, Any]) -> None:
    """Handle an event without ever returning a decision."""
    await anyio.sleep_forever()


@BOTH_LOOPS
async def test_a_handler_that_hangs_denies_a_call_and_is_skipped_for_other_events() -> None:
    hooks, recorder = HookRegistry(timeout=0.05), EventRecorder()
    for event in ("tool:pre", "tool:post"):
        hooks.register(event, hang)
        hooks.register(event, recorder)
        hooks.register(event, hang)
    assert (await hooks.emit("tool:pre")).action == "deny"
    assert (await hooks.emit("tool:post", {"a": 1})).action == "continue"
    assert [event for event, _ in recorder.events] == ["tool:post"]


@BOTH_LOOPS
async def test_every_handler_has_its_own_timeout() -> None:
    hooks = HookRegistry(timeout=3)

    async def takes_long(event: str, data: dict[str, Any]) -> None:
        await anyio.sleep(0.9)

    for _ in range(4):
        hooks.register("tool:pre", takes_long)
    assert (await hooks.emit("tool:pre")).action == "continue"


async def test_a_synchronous_handler_that_is_slow_takes_no_time_from_the_next() -> None:
    hooks = HookRegistry(timeout=2)

    async def waits(event: str, data: dict[str, Any]) -> None:
        await anyio.sleep(0.02)

    hooks.register("tool:pre", lambda event, data: time.sleep(2.1))
    hooks.register("tool:pre", waits)
    assert (await hooks.emit("tool:pre")).action == "continue"


@BOTH_LOOPS
async def test_a_late_decision_of_a_handler_counts_and_affects_no_other() -> None:
    hooks = HookRegistry(timeout=1)

    async def stubborn(event: str, data: dict[str, Any]) -> HookResult:
        try:
            await anyio.sleep_forever()
        except BaseException:
            return HookResult(action="modify", data={"stubborn": True})
        return HookResult()

    async def waits(event: str, data: dict[str, Any]) -> None:
        await anyio.lowlevel.checkpoint()

    for handler in (stubborn, waits, stubborn):
        hooks.register("tool:pre", handler)
    decision = await hooks.emit("tool:pre")
    assert (decision.action, decision.data["stubborn"]) == ("modify", True)
    await anyio.lowlevel.checkpoint()


@BOTH_LOOPS
async def test_a_handler_that_raises_when_its_time_is_over_has_failed() -> None:
    hooks = HookRegistry(timeout=0.05)

    async def breaks(event: str, data: dict[str, Any]) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise ValueError("broken")

    hooks.register("tool:pre", breaks)
    assert (await hooks.emit("tool:pre")).action == "deny"


@BOTH_LOOPS
async def test_the_timeout_of_handlers_may_be_none() -> None:
    hooks = HookRegistry(timeout=None)
    hooks.register("x", hang)
    with anyio.move_on_after(0.05) as scope:
        await hooks.emit("x")
    assert scope.cancelled_caught


@pytest.mark.parametrize("event", ["tool:pre", "tool:post"])
@BOTH_LOOPS
async def test_the_callers_cancellation_passes(event: str) -> None:
    hooks, after = HookRegistry(), EventRecorder()
    hooks.register(event, hang)
    hooks.register(event, after)
    with anyio.move_on_after(0.05) as scope:
        await hooks.emit(event)
    assert scope.cancelled_caught
    assert after.events == []


@BOTH_LOOPS
async def test_a_handler_may_use_scopes_and_tasks() -> None:
    hooks = HookRegistry(timeout=30)

    async def tasks(event: str, data: dict[str, Any]) -> HookResult:
        with anyio.move_on_after(0.01):
            await anyio.sleep_forever()
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep_forever)
            await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        return HookResult(action="modify", data={"done": True})

    hooks.register("tool:pre", tasks)
    assert (await hooks.emit("tool:pre")).data["done"] is True


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_handler_that_awaits_a_task_it_has_cancelled_has_failed() -> None:
    hooks = HookRegistry()

    async def awaits_what_it_has_cancelled(event: str, data: dict[str, Any]) -> None:
        task = asyncio.ensure_future(asyncio.sleep(3600))
        task.cancel()
        await task

    for event in ("tool:pre", "tool:post"):
        hooks.register(event, awaits_what_it_has_cancelled)
    assert (await hooks.emit("tool:pre")).action == "deny"
    assert (await hooks.emit("tool:post")).action == "continue"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cancellation_by_asyncio_passes() -> None:
    hooks = HookRegistry()
    hooks.register("tool:pre", hang)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(hooks.emit("tool:pre"), 0.05)


@BOTH_LOOPS
async def test_a_task_that_is_still_running_is_no_failure_of_a_handler(caplog: pytest.LogCaptureFixture) -> None:
    hooks = HookRegistry(timeout=None)

    class Forever:
        def __await__(self) -> Any:
            yield

    hooks.register("tool:pre", lambda event, data: Forever())
    emitting = hooks.emit("tool:pre")
    emitting.send(None)
    emitting.close()
    assert caplog.messages == []


@BOTH_LOOPS
async def test_a_handler_that_calls_a_slow_tool_has_no_more_time_than_others() -> None:
    registry = ToolRegistry()

    async def slow(data: Any) -> None:
        await anyio.sleep_forever()

    registry.register(ToolEntry("slow", "Sleeps.", slow, {"type": "object"}))
    hooks = HookRegistry(timeout=0.1)

    async def asks_until_it_knows(event: str, data: dict[str, Any]) -> None:
        while not (await registry.dispatch(ToolCall(id="1", name="slow", arguments={}), RunningCall())).success:
            pass

    hooks.register("tool:pre", asks_until_it_knows)
    with anyio.fail_after(TIMEOUT):
        assert (await hooks.emit("tool:pre")).action == "deny"


@BOTH_LOOPS
async def test_a_shielded_part_of_a_handler_finishes_after_its_timeout() -> None:
    hooks, steps = HookRegistry(timeout=0.05), list[str]()

    async def commits(event: str, data: dict[str, Any]) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.2)
                steps.append("commit")

    hooks.register("tool:pre", commits)
    assert (await hooks.emit("tool:pre")).action == "deny"
    assert steps == ["commit"]


@BOTH_LOOPS
async def test_a_question_that_outlives_its_handler_leaves_no_deadline_behind() -> None:
    hooks, is_released = HookRegistry(timeout=2), anyio.Event()

    async def asks() -> None:
        with pause_handler_clock():
            await is_released.wait()

    async with anyio.create_task_group() as tasks:

        async def begins(event: str, data: dict[str, Any]) -> None:
            tasks.start_soon(asks)
            await anyio.lowlevel.checkpoint()

        hooks.register("tool:pre", begins)
        assert (await hooks.emit("tool:pre")).action == "continue"
        await anyio.lowlevel.checkpoint()
        is_released.set()
        await anyio.sleep(2.2)
