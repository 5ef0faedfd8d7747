"""How the examples of the Hook contract are used."""

from __future__ import annotations

import mcp_bridge.amplifier as ours
from mcp_bridge.amplifier.testing import EventRecorder, TestCoordinator
from tests.kits.amplifier.documents_pieces import hook_mount, my_feedback_hook, my_validation_hook
from tests.kits.amplifier.documents_reading import Example
from tests.kits.amplifier.documents_running import run, run_tests, values


async def protocol(example: Example) -> None:
    """Hooks have the documented shape, in the document and in this package."""
    theirs = (await run(example))["HookHandler"]
    for hook in (EventRecorder(), my_validation_hook):
        assert isinstance(hook, theirs)
        assert isinstance(hook, ours.HookHandler)
    assert not isinstance(object(), theirs | ours.HookHandler)


async def results(example: Example) -> None:
    """The results of the document have the documented decisions."""
    found = await values(example)
    assert [each.action for each in found] == ["continue", "deny", "inject_context", "ask_user"]
    for result in found:
        hooks = ours.HookRegistry()
        hooks.register("tool:pre", lambda event, data, result=result: result)
        decision = await hooks.emit("tool:pre", {})
        for field in ("action", "reason", "context_injection", "user_message", "approval_prompt", "approval_default"):
            assert getattr(decision, field) == getattr(result, field)


async def mounts(example: Example) -> None:
    """Both hooks run until the cleanup."""
    hooks = {"my_validation_hook": my_validation_hook, "my_feedback_hook": my_feedback_hook}
    mount = (await run(example, **hooks))["mount"]
    coordinator = TestCoordinator()
    cleanup = await mount(coordinator, {})
    assert (await coordinator.hooks.emit("tool:pre", {"tool_input": {"file_path": "/etc/passwd"}})).action == "deny"
    assert (await coordinator.hooks.emit("tool:post", {})).action == "inject_context"
    cleanup()
    assert coordinator.hooks.list_handlers() == {}


async def registers(example: Example) -> None:
    """The answer of `register` takes the handler away."""
    coordinator, recorder = TestCoordinator(), EventRecorder()
    names = await run(example, coordinator=coordinator, my_handler=recorder)
    assert coordinator.hooks.list_handlers("tool:post") == {"tool:post": ["my_handler"]}
    await coordinator.hooks.emit("tool:post", {})
    names["unregister"]()
    await coordinator.hooks.emit("tool:post", {})
    assert len(recorder.events) == 1


async def tests(example: Example) -> None:
    """The document's tests pass."""
    names = await run(example, my_validation_hook=my_validation_hook, mount=await hook_mount())
    assert await run_tests(names) == 2


async def records(example: Example) -> None:
    """The document's assertions hold."""
    await run(example)


USES = {
    "class HookHandler(Protocol):": protocol,
    'HookResult(action="continue")': results,
    "async def mount(coordinator: ModuleCoordinator, config: dict) -> Callable | None:": mounts,
    "registry: HookRegistry = coordinator.hooks": registers,
    "async def test_hook_handler():": tests,
    "recorder = EventRecorder()": records,
}
