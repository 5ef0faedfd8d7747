"""The coordinator: modules mount tools, find each other, and leave things behind."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from mcp_bridge.amplifier import HookRegistry, ModuleCoordinator, MountCollision
from mcp_bridge.amplifier.testing import EventRecorder, MockTool
from tests.kits.loops import BOTH_LOOPS


def make_recorded_coordinator() -> tuple[ModuleCoordinator, list[list[str]]]:
    """Return a coordinator, and the mounted tools after each change."""
    records: list[list[str]] = []
    coordinator = ModuleCoordinator(on_change=lambda: records.append(sorted(coordinator.get("tools"))))
    return coordinator, records


async def test_mounting_takes_effect_even_before_it_is_awaited() -> None:
    coordinator, tool = ModuleCoordinator(), MockTool("read")
    waiting = coordinator.mount("tools", tool, name="mine")
    assert coordinator.get("tools", "mine") is tool
    await waiting
    assert await coordinator.mount("tools", MockTool("write")) is None
    assert sorted(coordinator.get_mounted("tools")) == ["mine", "write"]
    coordinator.unmount("tools", "mine")
    await coordinator.unmount("tools", "write")
    await coordinator.unmount("tools", "write")
    assert coordinator.get("tools") == {}
    assert coordinator.get("tools", "mine") is None


@pytest.mark.parametrize("point", ["orchestrator", "context"])
async def test_the_point_session_has_the_orchestrator_and_the_context(point: str) -> None:
    coordinator, module = ModuleCoordinator(), object()
    assert coordinator.get_mounted("session") == {}
    await coordinator.mount("session", module, name=point)
    assert coordinator.get(point) is module
    assert coordinator.get("session", point) is module
    assert coordinator.mount_points[point] is module
    await coordinator.unmount("session", point)
    await coordinator.mount(point, module)
    assert coordinator.get_mounted("session") == {point: module}
    await coordinator.unmount(point)
    assert coordinator.get("session", point) is None


async def test_a_second_context_replaces_the_first_and_this_is_logged(caplog: Any) -> None:
    coordinator = ModuleCoordinator()
    for context in ("first", "first", "second"):
        coordinator.mount("context", context)
    assert coordinator.get("context") == "second"
    assert len(caplog.records) == 1


async def test_two_tools_of_one_name_are_an_error() -> None:
    coordinator, tool = ModuleCoordinator(), MockTool("read")
    coordinator.mount("tools", tool)
    coordinator.mount("tools", tool)
    coordinator.mount("tools", tool, name="alias")
    with pytest.raises(MountCollision, match="'read' is already mounted"):
        coordinator.mount("tools", MockTool("read"))
    with pytest.raises(ValueError, match="'alias' is already mounted"):
        await coordinator.mount("tools", MockTool("other"), name="alias")
    assert coordinator.get("tools") == {"read": tool, "alias": tool}


@pytest.mark.parametrize(
    ("point", "name", "problem"),
    [
        ("nowhere", "x", "Unknown mount point: nowhere"),
        ("hooks", "x", r"coordinator\.hooks\.register"),
        ("session", "x", "Unknown mount point: session"),
        ("session", None, "Unknown mount point: session"),
        ("tools", None, "has no name"),
    ],
)
async def test_an_impossible_mount_is_an_error(point: str, name: str | None, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        ModuleCoordinator().mount(point, object(), name=name)


async def test_a_resolver_is_none_until_it_is_mounted() -> None:
    coordinator = ModuleCoordinator()
    assert coordinator.get("module-source-resolver") is None
    assert coordinator.get("hooks") is coordinator.hooks
    with pytest.raises(ValueError, match="Unknown"):
        coordinator.get("nowhere")


WRITES = {
    "[]": lambda tools: tools.__setitem__("b", 1),
    "del": lambda tools: tools.__delitem__("a"),
    "pop": lambda tools: tools.pop("a"),
    "popitem": lambda tools: tools.popitem(),
    "update": lambda tools: tools.update({"b": 1}),
    "update by name": lambda tools: tools.update(b=1),
    "setdefault": lambda tools: tools.setdefault("b", 1),
    "|=": lambda tools: tools.__ior__({"b": 1}),
    "clear": lambda tools: tools.clear(),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
async def test_writing_to_a_mount_point_directly_is_noticed(write: Any) -> None:
    coordinator, values = make_recorded_coordinator()
    tools = coordinator.mount_points["tools"]
    tools["a"] = 1
    write(tools)
    assert values[1:] == [sorted(tools)]
    assert coordinator.get("tools") is tools


async def test_replacing_a_mount_point_is_noticed() -> None:
    coordinator, values = make_recorded_coordinator()
    coordinator.mount_points["tools"]["old"] = 1
    coordinator.mount_points["tools"] = {"a": 1, "b": 2}
    assert values[-1] == ["a", "b"]
    coordinator.mount_points["tools"] = coordinator.mount_points["tools"]
    coordinator.mount_points["tools"] |= {"c": 3}
    assert (coordinator.get("tools"), values[-1]) == ({"a": 1, "b": 2, "c": 3}, ["a", "b", "c"])
    coordinator.mount_points["tools"]["d"] = 4
    assert values[-1] == ["a", "b", "c", "d"]
    coordinator.mount_points["context"] = "mine"
    assert coordinator.get("context") == "mine"


async def test_modules_find_each_other_by_capabilities() -> None:
    coordinator = ModuleCoordinator()
    coordinator.register_capability("session.spawn", 1)
    coordinator.register_capability("session.spawn", 2)
    assert coordinator.get_capability("session.spawn") == 2
    assert coordinator.get_capability("nothing") is None


async def test_modules_may_set_attributes_of_the_coordinator() -> None:
    first, second = ModuleCoordinator(), ModuleCoordinator()
    first.todo_state = ["milk"]  # type: ignore[attr-defined]
    first.session_state["a"] = 1
    assert first.todo_state == ["milk"]  # type: ignore[attr-defined]
    assert not hasattr(second, "todo_state")
    assert second.session_state == {}


async def test_contributions_are_collected_in_order_without_those_that_fail() -> None:
    coordinator = ModuleCoordinator()

    async def later() -> list[str]:
        await anyio.lowlevel.checkpoint()
        return ["c"]

    def ends() -> None:
        raise SystemExit

    for name, callback in {"a": lambda: ["a"], "none": lambda: None, "bad": ends, "c": later}.items():
        coordinator.register_contributor("events", name, callback)
    coordinator.register_contributor("other", "a", lambda: ["x"])
    coordinator.register_contributor("events", "a", lambda: ["again"])
    assert await coordinator.collect_contributions("events") == [["c"], ["again"]]
    assert await coordinator.collect_contributions("nothing") == []


async def test_cleanups_of_modules_run_in_reverse_order_and_a_failing_one_stops_no_other() -> None:
    coordinator, order = ModuleCoordinator(), []

    async def later() -> None:
        await anyio.lowlevel.checkpoint()
        order.append("later")

    def fails(error: BaseException) -> Any:
        def cleanup() -> None:
            order.append(type(error).__name__)
            raise error

        return cleanup

    cleanups = [
        lambda: order.append("first"),
        later,
        fails(ValueError()),
        fails(SystemExit()),
        fails(KeyboardInterrupt()),
    ]
    for cleanup in [*cleanups, None, {"not": "callable"}]:
        coordinator.register_cleanup(cleanup)
    await coordinator.cleanup()
    await coordinator.cleanup()
    assert order == ["KeyboardInterrupt", "SystemExit", "ValueError", "later", "first"]


async def test_a_cleanup_may_register_another() -> None:
    coordinator, order = ModuleCoordinator(), []
    coordinator.register_cleanup(lambda: coordinator.register_cleanup(lambda: order.append("another")))
    await coordinator.cleanup()
    assert order == ["another"]


@BOTH_LOOPS
async def test_cleanups_run_while_the_session_is_cancelled_with_a_timeout() -> None:
    coordinator, order = ModuleCoordinator(), []

    async def cleans() -> None:
        await anyio.lowlevel.checkpoint()
        order.append("cleaned")

    coordinator.register_cleanup(cleans)
    coordinator.register_cleanup(anyio.sleep_forever)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await coordinator.cleanup(timeout=0.5)
    assert order == ["cleaned"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cleanup_may_wait_for_the_task_that_it_has_cancelled() -> None:
    coordinator, order = ModuleCoordinator(), []
    task = asyncio.ensure_future(asyncio.sleep(3600))

    async def cleans() -> None:
        task.cancel()
        await task

    coordinator.register_cleanup(lambda: order.append("first"))
    coordinator.register_cleanup(cleans)
    await coordinator.cleanup()
    assert order == ["first"]


async def test_a_cancellation_reaches_the_modules_and_the_child_sessions() -> None:
    coordinator, recorder, order = ModuleCoordinator(), EventRecorder(), []
    child = ModuleCoordinator(parent_id=coordinator.session_id)
    coordinator.hooks.register("cancel:requested", recorder)
    coordinator.cancellation.register_child(child.cancellation)
    coordinator.cancellation.register_tool_start("1", "read")

    async def later() -> None:
        order.append("later")

    for callback in (lambda: order.append("sync"), lambda: 1 / 0, later):
        coordinator.cancellation.on_cancel(callback)
    await coordinator.request_cancel()
    await coordinator.request_cancel()
    assert (coordinator.cancellation.is_graceful, child.cancellation.state) == (True, "graceful")
    assert [(data["level"], data["running_tools"]) for _, data in recorder.events] == [("graceful", ["read"])]
    await coordinator.request_cancel(immediate=True)
    assert (child.cancellation.is_immediate, child.cancellation.is_cancelled) == (True, True)
    assert order == ["sync", "later"] * 2
    assert [data["level"] for _, data in recorder.events] == ["graceful", "immediate"]


async def test_a_child_session_of_a_cancelled_one_is_cancelled() -> None:
    above, below, free = (ModuleCoordinator().cancellation for _ in range(3))
    above.request_cancellation()
    above.register_child(below)
    assert below.is_graceful
    above.register_child(free)
    above.unregister_child(free)
    above.unregister_child(free)
    free.reset()
    above.request_immediate()
    assert (below.is_immediate, free.is_cancelled) == (True, False)


async def test_the_running_tools_are_known_until_they_have_ended() -> None:
    token = ModuleCoordinator().cancellation
    token.register_tool_start("1", "read")
    token.register_tool_start("2", "read")
    token.register_tool_complete("1")
    token.register_tool_complete("1")
    assert (token.running_tools, token.running_tool_names) == ({"2"}, ["read"])
    token.request_graceful()
    token.reset()
    assert (token.state, token.running_tools) == ("none", set())


async def test_a_coordinator_is_created_from_a_session_or_from_its_parts() -> None:
    session = SimpleNamespace(session_id="s", parent_id="p", config={"tools": []})
    hooks, recorder = HookRegistry(), EventRecorder()
    of_session, of_parts = ModuleCoordinator(session), ModuleCoordinator(session_id="t", hooks=hooks, config={"a": 1})
    assert (of_session.session_id, of_session.parent_id, of_session.config) == ("s", "p", {"tools": []})
    assert (of_parts.session_id, of_parts.parent_id, of_parts.config) == ("t", None, {"a": 1})
    hooks.register("x", recorder)
    await of_parts.hooks.emit("x")
    assert recorder.events[0][1]["session_id"] == "t"
    assert ModuleCoordinator().session_id != ModuleCoordinator().session_id
    of_parts.mount("tools", MockTool("read"))
    assert of_parts.to_dict()["tools"] == ["read"]
