"""The handlers of an event, their order, and changes only by their decisions."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

from mcp_bridge.amplifier import HookRegistry, HookResult
from mcp_bridge.amplifier.testing import EventRecorder

DENY = HookResult(action="deny", reason="no")


def make_recording_handler(order: list[Any], name: Any, answer: Any = None) -> Any:
    """Return a handler that records its calls."""

    def handler(event: str, data: dict[str, Any]) -> Any:
        order.append(name)
        return answer

    return handler


async def test_lower_priorities_come_first_and_ties_in_the_order_of_registration() -> None:
    hooks, order = HookRegistry(), []
    for number, priority in enumerate([10, 0, -5, 0, 10, -100]):
        hooks.register("x", make_recording_handler(order, number), priority)
    await hooks.emit("x")
    assert order == [5, 2, 1, 3, 0, 4]


async def test_a_denial_ends_the_event_after_any_question() -> None:
    hooks, order = HookRegistry(), []
    hooks.register("x", make_recording_handler(order, 1, HookResult(action="ask_user")))
    hooks.register("x", make_recording_handler(order, 2, DENY))
    hooks.register("x", make_recording_handler(order, 3))
    decision = await hooks.emit("x")
    assert (decision.action, decision.reason, order) == ("deny", "no", [1, 2])


async def test_handlers_are_functions_methods_or_objects_sync_or_async() -> None:
    hooks, order, recorder = HookRegistry(), [], EventRecorder()

    async def later(event: str, data: dict[str, Any]) -> HookResult:
        await anyio.lowlevel.checkpoint()
        order.append("later")
        return HookResult()

    for handler in (make_recording_handler(order, "sync"), later, recorder, recorder.emit):
        hooks.on("x", handler)
    await hooks.emit("x", {"a": 1})
    assert order == ["sync", "later"]
    assert [data["a"] for _, data in recorder.events] == [1, 1]


async def test_a_handler_that_is_not_callable_is_rejected_at_registration() -> None:
    with pytest.raises(TypeError, match="got str"):
        HookRegistry().register("x", "no handler")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("event", "priority", "error", "problem"),
    [
        ("tool:*", 0, ValueError, r"must name one event, such as 'tool:pre', got 'tool:\*'\. Register each event"),
        ("*", 0, ValueError, "must name one event"),
        ("tool:p?e", 0, ValueError, "must name one event"),
        ("", 0, ValueError, "must name one event"),
        (["tool:pre", "tool:post"], 0, TypeError, "the event of a hook must be text, such as 'tool:pre', got list"),
        ("tool:pre", "10", TypeError, "the priority of a hook on tool:pre must be an integer, such as 10, got '10'"),
        ("tool:pre", 1.5, TypeError, "must be an integer, such as 10, got 1.5"),
        ("tool:pre", None, TypeError, "must be an integer, such as 10, got None"),
    ],
)
async def test_patterns_and_other_priorities_are_rejected_at_registration(
    event: Any, priority: Any, error: type[Exception], problem: str
) -> None:
    hooks = HookRegistry()
    with pytest.raises(error, match=problem):
        hooks.register(event, print, priority)
    assert hooks.list_handlers() == {}


async def test_every_event_has_the_default_fields_unless_it_sets_them() -> None:
    hooks, recorder = HookRegistry(), EventRecorder()
    hooks.set_default_fields(session_id="s", parent_id="p")
    hooks.register("x", recorder)
    decision = await hooks.emit("x", {"parent_id": "mine"})
    [(_, data)] = recorder.events
    assert (data["session_id"], data["parent_id"]) == ("s", "mine")
    assert decision.data == data
    assert decision.data["timestamp"]


async def test_handlers_cannot_change_the_data_of_others_in_place() -> None:
    hooks, records = HookRegistry(), []
    given = {"tool_input": {"path": "a", "lines": [1], "set": {1}, "tuple": ([1],)}}

    def spoils(event: str, data: dict[str, Any]) -> None:
        records.append(repr(data["tool_input"]))
        data["tool_input"]["path"] = "spoilt"
        data["tool_input"]["lines"].append(2)
        data["tool_input"]["set"].add(2)
        data["tool_input"]["tuple"][0].append(2)
        data.clear()

    hooks.register("x", spoils)
    hooks.register("x", spoils)
    decision = await hooks.emit("x", given)
    assert given == {"tool_input": {"path": "a", "lines": [1], "set": {1}, "tuple": ([1],)}}
    assert records == [repr(given["tool_input"])] * 2
    assert (decision.action, decision.data["tool_input"]) == ("continue", given["tool_input"])


async def test_a_handler_cannot_change_its_decision_later() -> None:
    hooks, mine = HookRegistry(), {"tool_input": {"path": "b"}}
    hooks.register("x", lambda event, data: HookResult(action="modify", data=mine))
    decision = await hooks.emit("x", {"tool_input": {"path": "a"}})
    mine["tool_input"]["path"] = "spoilt"
    assert decision.data["tool_input"] == {"path": "b"}


async def test_objects_that_cannot_be_copied_are_shared() -> None:
    hooks, records, lock = HookRegistry(), [], anyio.Lock()
    generator = (line for line in "ab")
    hooks.register("x", lambda event, data: records.append(data["opened"]))
    await hooks.emit("x", {"opened": generator, "lock": lock})
    assert records == [generator]


async def test_a_handler_that_is_registered_or_removed_during_an_event_changes_only_the_next_one() -> None:
    hooks, order = HookRegistry(), []

    async def changes(event: str, data: dict[str, Any]) -> None:
        order.append("changes")
        hooks.register("x", make_recording_handler(order, "before"), -1)
        take_away()
        await anyio.lowlevel.checkpoint()

    hooks.register("x", changes)
    take_away = hooks.register("x", make_recording_handler(order, "taken away"), 1)
    hooks.register("x", make_recording_handler(order, "last"), 2)
    await hooks.emit("x")
    assert order == ["changes", "taken away", "last"]
    order.clear()
    await hooks.emit("x")
    assert order == ["before", "changes", "last"]


async def test_the_result_of_register_removes_this_handler_only() -> None:
    hooks, order = HookRegistry(), []
    first = hooks.register("x", make_recording_handler(order, 1), name="shared")
    hooks.register("x", make_recording_handler(order, 2), name="shared")
    hooks.register("y", make_recording_handler(order, 3), name="shared")
    first()
    first()
    await hooks.emit("x")
    await hooks.emit("y")
    assert order == [2, 3]
    hooks.unregister("shared")
    assert hooks.list_handlers() == {}


async def test_the_same_handler_may_be_registered_twice() -> None:
    hooks, order = HookRegistry(), []
    handler = make_recording_handler(order, 1)
    take_away = hooks.register("x", handler)
    hooks.register("x", handler)
    take_away()
    await hooks.emit("x")
    assert order == [1]


async def test_handlers_are_listed_by_event_in_their_order() -> None:
    hooks = HookRegistry()
    hooks.register("x", EventRecorder(), 5)
    hooks.register("x", EventRecorder(), 1, name="first")
    hooks.register("y", make_recording_handler([], 1))
    assert hooks.list_handlers() == {"x": ["first", "EventRecorder"], "y": ["handler"]}
    assert hooks.list_handlers("x") == {"x": ["first", "EventRecorder"]}
    assert hooks.list_handlers("z") == {"z": []}
    assert [hooks.has_handlers(event) for event in "xyz"] == [True, True, False]


async def test_an_event_without_handlers_continues() -> None:
    decision = await HookRegistry().emit("x", {"a": 1})
    assert (decision.action, decision.data["a"]) == ("continue", 1)


async def test_concurrent_emits_are_independent() -> None:
    hooks, results = HookRegistry(), {}

    async def doubles(event: str, data: dict[str, Any]) -> HookResult:
        await anyio.lowlevel.checkpoint()
        return HookResult(action="modify", data={"n": data["n"] * 2})

    async def emits(number: int) -> None:
        decision = await hooks.emit("x", {"n": number})
        results[number] = decision.data["n"]

    hooks.register("x", doubles)
    hooks.register("x", doubles)
    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(emits, number)
    assert results == {number: number * 4 for number in range(20)}


async def test_a_handler_may_emit_events() -> None:
    hooks, recorder = HookRegistry(), EventRecorder()

    async def emits(event: str, data: dict[str, Any]) -> HookResult:
        return await hooks.emit("inner", {"from": event})

    hooks.register("outer", emits)
    hooks.register("inner", recorder)
    hooks.register("inner", lambda event, data: DENY)
    assert (await hooks.emit("outer")).action == "deny"
    assert recorder.events[0][1]["from"] == "outer"


async def test_the_data_that_handlers_return_is_collected() -> None:
    hooks = HookRegistry()
    hooks.register("x", lambda event, data: HookResult(data={"n": 1}))
    hooks.register("x", lambda event, data: None)
    hooks.register("x", lambda event, data: {"action": "deny", "data": {"n": 2}})
    hooks.register("x", lambda event, data: HookResult(data={"n": data["n"]}))
    assert await hooks.emit_and_collect("x", {"n": 3}) == [{"n": 1}, {"n": 2}, {"n": 3}]


async def test_failing_and_slow_handlers_are_not_collected(caplog: pytest.LogCaptureFixture) -> None:
    hooks = HookRegistry()

    async def hangs(event: str, data: dict[str, Any]) -> None:
        await anyio.sleep_forever()

    def fails(event: str, data: dict[str, Any]) -> None:
        raise SystemExit("no")

    for handler in (hangs, fails, lambda event, data: "garbage", lambda event, data: {"data": {"n": 1}}):
        hooks.register("tool:pre", handler)
    with caplog.at_level(logging.WARNING, "mcp_bridge.amplifier"):
        assert await hooks.emit_and_collect("tool:pre", timeout=0.05) == [{"n": 1}]
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 3
    hooks.unregister("hangs")
    assert await hooks.emit_and_collect("tool:pre", timeout=None) == [{"n": 1}]
