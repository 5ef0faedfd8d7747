"""Checks of the examples of the Hook contract; documents_contexts.py explains how they work."""

from __future__ import annotations

import mcp_bridge.amplifier as ours
from mcp_bridge.amplifier.testing import EventRecorder, TestCoordinator
from tests.kits.amplifier.documents_pieces import get_hook_mount, my_feedback_hook, my_validation_hook
from tests.kits.amplifier.documents_reading import Example
from tests.kits.amplifier.documents_running import evaluate_expressions, run_example, run_example_tests


async def check_protocol(example: Example) -> None:
    """Check that the protocols of the document and of this package accept the same hooks."""
    documented_protocol = (await run_example(example))["HookHandler"]
    for hook in (EventRecorder(), my_validation_hook):
        assert isinstance(hook, documented_protocol)
        assert isinstance(hook, ours.HookHandler)
    assert not isinstance(object(), documented_protocol | ours.HookHandler)


async def check_results(example: Example) -> None:
    """Check that the hook registry of this package returns each result of the document unchanged."""
    results = await evaluate_expressions(example)
    assert [result.action for result in results] == ["continue", "deny", "inject_context", "ask_user"]
    for result in results:
        hooks = ours.HookRegistry()
        hooks.register("tool:pre", lambda event, data, result=result: result)
        decision = await hooks.emit("tool:pre", {})
        for field in ("action", "reason", "context_injection", "user_message", "approval_prompt", "approval_default"):
            assert getattr(decision, field) == getattr(result, field)


async def check_mount(example: Example) -> None:
    """Check that both mounted hooks run until the cleanup."""
    hooks = {"my_validation_hook": my_validation_hook, "my_feedback_hook": my_feedback_hook}
    mount = (await run_example(example, **hooks))["mount"]
    coordinator = TestCoordinator()
    cleanup = await mount(coordinator, {})
    assert (await coordinator.hooks.emit("tool:pre", {"tool_input": {"file_path": "/etc/passwd"}})).action == "deny"
    assert (await coordinator.hooks.emit("tool:post", {})).action == "inject_context"
    cleanup()
    assert coordinator.hooks.list_handlers() == {}


async def check_unregister(example: Example) -> None:
    """Check that the function returned by `register` removes the handler."""
    coordinator, recorder = TestCoordinator(), EventRecorder()
    names = await run_example(example, coordinator=coordinator, my_handler=recorder)
    assert coordinator.hooks.list_handlers("tool:post") == {"tool:post": ["my_handler"]}
    await coordinator.hooks.emit("tool:post", {})
    names["unregister"]()
    await coordinator.hooks.emit("tool:post", {})
    assert len(recorder.events) == 1


async def check_tests(example: Example) -> None:
    """Run the document's tests."""
    names = await run_example(example, my_validation_hook=my_validation_hook, mount=await get_hook_mount())
    assert await run_example_tests(names) == 2


async def run_assertions(example: Example) -> None:
    """Run an example that contains its own assertions."""
    await run_example(example)


HOOK_CHECKS = {
    "class HookHandler(Protocol):": check_protocol,
    'HookResult(action="continue")': check_results,
    "async def mount(coordinator: ModuleCoordinator, config: dict) -> Callable | None:": check_mount,
    "registry: HookRegistry = coordinator.hooks": check_unregister,
    "async def test_hook_handler():": check_tests,
    "recorder = EventRecorder()": run_assertions,
}
