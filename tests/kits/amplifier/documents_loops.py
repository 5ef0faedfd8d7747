"""Checks of the examples of the Orchestrator contract; documents_contexts.py explains how they work."""

from __future__ import annotations

from typing import Any

import mcp_bridge.amplifier as ours
from mcp_bridge.amplifier.testing import (
    EventRecorder,
    MockContextManager,
    MockProvider,
    MockTool,
    ScriptedOrchestrator,
    TestCoordinator,
)
from tests.kits.amplifier.documents_pieces import MyOrchestrator
from tests.kits.amplifier.documents_reading import Example
from tests.kits.amplifier.documents_running import run_example, run_example_in_function, run_example_tests


async def check_protocol(example: Example) -> None:
    """Check that the protocols of the document and of this package accept the same orchestrators."""
    documented_protocol = (await run_example(example))["Orchestrator"]
    for loop in (MyOrchestrator({}), ScriptedOrchestrator([])):
        assert isinstance(loop, documented_protocol)
        assert isinstance(loop, ours.Orchestrator)
    assert not isinstance(object(), documented_protocol | ours.Orchestrator)


async def check_mount(example: Example) -> None:
    """Check that `mount` mounts the orchestrator under both names: `orchestrator`, and `orchestrator` in `session`."""
    mount = (await run_example(example, MyOrchestrator=MyOrchestrator))["mount"]
    coordinator = TestCoordinator()
    loop = await mount(coordinator, {})
    assert coordinator.get("orchestrator") is loop
    assert coordinator.get_mounted("session", "orchestrator") is loop
    assert coordinator.get_mounted("session") == {"orchestrator": loop}


async def check_events(example: Example) -> None:
    """Check that the document's loop emits its events in order."""
    names = {
        "provider_name": "test",
        "messages": [],
        "model_name": "mock-1",
        "provider": MockProvider(),
        "request": ours.ChatRequest(messages=[]),
        "tool_call": ours.ToolCallBlock(id="1", name="read", input={"path": "a"}),
        "tool": MockTool("read", "text"),
    }
    execute = (await run_example(example, **names))["execute"]
    hooks, recorder = ours.HookRegistry(), EventRecorder()
    events = ["provider:request", "provider:response", "tool:pre", "tool:post"]
    for event in events:
        hooks.register(event, recorder)
    await execute(None, "Hi", None, {}, {}, hooks)
    assert [event for event, _ in recorder.events] == events
    assert recorder.events[-1][1]["tool_result"].output == "text"


async def check_hook_results(example: Example) -> None:
    """Check the effect of each action of a hook in the document's loop."""
    requests: list[Any] = []

    async def decided(result: ours.HookResult, *, approved: bool = False) -> tuple[Any, list[Any]]:
        async def request_approval(asked: ours.HookResult) -> bool:
            requests.append(asked.approval_prompt)
            return approved

        hooks, context = ours.HookRegistry(), MockContextManager()
        hooks.register("tool:pre", lambda event, data: result)
        names = {"hooks": hooks, "data": {"a": 1}, "context": context, "request_approval": request_approval}
        return await run_example_in_function(example, **names), context.messages

    denial, _ = await decided(ours.HookResult(action="deny", reason="no"))
    assert (denial.is_error, denial.success, denial.output) == (True, False, "no")
    modification, _ = await decided(ours.HookResult(action="modify", data={"a": 2}))
    assert modification["data"]["a"] == 2
    _, messages = await decided(ours.HookResult(action="inject_context", context_injection="lint"))
    assert messages == [{"role": "system", "content": "lint"}]
    refusal, _ = await decided(ours.HookResult(action="ask_user", approval_prompt="Really?"))
    assert (refusal.is_error, refusal.output) == (True, "User denied")
    approval, _ = await decided(ours.HookResult(action="ask_user", approval_prompt="Really?"), approved=True)
    assert approval["data"]["a"] == 1
    assert requests == ["Really?", "Really?"]


async def check_messages(example: Example) -> None:
    """Check that the context stores the messages of a turn in order."""
    context = MockContextManager()
    values = {
        "context": context,
        "prompt": "Hi",
        "response": ours.Message(role="assistant", content="Hello"),
        "tool_call": ours.ToolCall(id="1", name="read"),
        "result": ours.ToolResult(output="text"),
    }
    names = await run_example(example, **values)
    assert [(message["role"], message["content"]) for message in names["messages"]] == [
        ("user", "Hi"),
        ("assistant", "Hello"),
        ("tool", "text"),
    ]


async def check_provider(example: Example) -> None:
    """Check the choice of the provider: the configured one or the first one, unless the request names another."""
    for config in ({}, {"default_provider": "one"}):
        values = {"config": config, "providers": {"one": 1, "two": 2}, "request_options": {"provider": "two"}}
        names = await run_example(example, **values, default_provider_name="one")
        assert (names["provider"], names["provider_name"]) == (1, "two")


async def check_tests(example: Example) -> None:
    """Run the document's test."""
    assert await run_example_tests(await run_example(example, MyOrchestrator=MyOrchestrator)) == 1


async def run_assertions(example: Example) -> None:
    """Run an example that contains its own assertions."""
    await run_example(example)


LOOP_CHECKS = {
    "class Orchestrator(Protocol):": check_protocol,
    "async def mount(coordinator: ModuleCoordinator, config: dict) -> Orchestrator | Callable | None:": check_mount,
    "async def execute(self, prompt, context, providers, tools, hooks):": check_events,
    'pre_result = await hooks.emit("tool:pre", data)': check_hook_results,
    'await context.add_message({"role": "user", "content": prompt})': check_messages,
    'provider_name = config.get("default_provider", list(providers.keys())[0])': check_provider,
    "async def test_orchestrator_basic():": check_tests,
    'orchestrator = ScriptedOrchestrator(responses=["Response 1", "Response 2"])': run_assertions,
}
