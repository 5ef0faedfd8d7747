"""How the examples of the Orchestrator contract are used."""

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
from tests.kits.amplifier.documents_running import run, run_body, run_tests


async def protocol(example: Example) -> None:
    """Loops have the documented shape, in the document and in this package."""
    theirs = (await run(example))["Orchestrator"]
    for loop in (MyOrchestrator({}), ScriptedOrchestrator([])):
        assert isinstance(loop, theirs)
        assert isinstance(loop, ours.Orchestrator)
    assert not isinstance(object(), theirs | ours.Orchestrator)


async def mounts(example: Example) -> None:
    """The mount points of the document and of amplifier-core have it."""
    mount = (await run(example, MyOrchestrator=MyOrchestrator))["mount"]
    coordinator = TestCoordinator()
    loop = await mount(coordinator, {})
    assert coordinator.get("orchestrator") is loop
    assert coordinator.get_mounted("session", "orchestrator") is loop
    assert coordinator.get_mounted("session") == {"orchestrator": loop}


async def emits(example: Example) -> None:
    """A registry receives the events of the document, in order."""
    names = {
        "provider_name": "test",
        "messages": [],
        "model_name": "mock-1",
        "provider": MockProvider(),
        "request": ours.ChatRequest(messages=[]),
        "tool_call": ours.ToolCallBlock(id="1", name="read", input={"path": "a"}),
        "tool": MockTool("read", "text"),
    }
    execute = (await run(example, **names))["execute"]
    hooks, recorder = ours.HookRegistry(), EventRecorder()
    events = ["provider:request", "provider:response", "tool:pre", "tool:post"]
    for event in events:
        hooks.register(event, recorder)
    await execute(None, "Hi", None, {}, {}, hooks)
    assert [event for event, _ in recorder.events] == events
    assert recorder.events[-1][1]["tool_result"].output == "text"


async def processes(example: Example) -> None:
    """Each action has the documented effect in the loop of the document."""
    requests: list[Any] = []

    async def decided(result: ours.HookResult, *, approved: bool = False) -> tuple[Any, list[Any]]:
        async def request_approval(asked: ours.HookResult) -> bool:
            requests.append(asked.approval_prompt)
            return approved

        hooks, context = ours.HookRegistry(), MockContextManager()
        hooks.register("tool:pre", lambda event, data: result)
        names = {"hooks": hooks, "data": {"a": 1}, "context": context, "request_approval": request_approval}
        return await run_body(example, **names), context.messages

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


async def manages(example: Example) -> None:
    """The context has the messages in order."""
    context = MockContextManager()
    values = {
        "context": context,
        "prompt": "Hi",
        "response": ours.Message(role="assistant", content="Hello"),
        "tool_call": ours.ToolCall(id="1", name="read"),
        "result": ours.ToolResult(output="text"),
    }
    names = await run(example, **values)
    assert [(message["role"], message["content"]) for message in names["messages"]] == [
        ("user", "Hi"),
        ("assistant", "Hello"),
        ("tool", "text"),
    ]


async def selects(example: Example) -> None:
    """The configured provider, or the first one."""
    for config in ({}, {"default_provider": "one"}):
        values = {"config": config, "providers": {"one": 1, "two": 2}, "request_options": {"provider": "two"}}
        names = await run(example, **values, default_provider_name="one")
        assert (names["provider"], names["provider_name"]) == (1, "two")


async def tests(example: Example) -> None:
    """The document's test passes."""
    assert await run_tests(await run(example, MyOrchestrator=MyOrchestrator)) == 1


async def scripted(example: Example) -> None:
    """The document's assertion holds."""
    await run(example)


USES = {
    "class Orchestrator(Protocol):": protocol,
    "async def mount(coordinator: ModuleCoordinator, config: dict) -> Orchestrator | Callable | None:": mounts,
    "async def execute(self, prompt, context, providers, tools, hooks):": emits,
    'pre_result = await hooks.emit("tool:pre", data)': processes,
    'await context.add_message({"role": "user", "content": prompt})': manages,
    'provider_name = config.get("default_provider", list(providers.keys())[0])': selects,
    "async def test_orchestrator_basic():": tests,
    'orchestrator = ScriptedOrchestrator(responses=["Response 1", "Response 2"])': scripted,
}
