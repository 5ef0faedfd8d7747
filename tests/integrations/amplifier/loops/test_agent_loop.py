"""The loop of an agent: its requests to the model, its tool calls and its end."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import anyio
import pytest

from mcp_bridge._integrations.amplifier.contexts.simple import SimpleContext
from mcp_bridge._integrations.amplifier.hooks import HookRegistry
from mcp_bridge._integrations.amplifier.llm_errors import InvalidToolCallError, RateLimitError
from mcp_bridge._integrations.amplifier.loops import basic, streaming
from mcp_bridge._integrations.amplifier.message_models import (
    ChatRequest,
    ChatResponse,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolCallBlock,
    Usage,
)
from mcp_bridge._integrations.amplifier.models import ContextInjection, HookResult, ToolResult
from mcp_bridge._integrations.amplifier.providers.scripted_provider import ScriptedProvider, ScriptedTurn
from mcp_bridge.amplifier.testing import EventRecorder, MockProvider, MockTool, TestCoordinator
from tests.kits.constants import TIMEOUT


def request_calls(*calls: tuple[str, dict[str, Any]], text: str = "", **fields: Any) -> ChatResponse:
    """Return a response with tool calls."""
    blocks = [
        ToolCallBlock(id=f"{name}.{at}", name=name, input=arguments) for at, (name, arguments) in enumerate(calls)
    ]
    tool_calls = [ToolCall(id=block.id, name=block.name, arguments=block.input) for block in blocks]
    usage = fields.pop("usage", Usage(input_tokens=6, output_tokens=4, total_tokens=10))
    content = [*([TextBlock(text=text)] if text else []), *blocks]
    return ChatResponse(content=content, tool_calls=tool_calls or None, usage=usage, **fields)


class Scene:
    """A loop with a model, tools, a context and hooks."""

    def __init__(self, *responses: Any, tools: list[Any] | None = None) -> None:
        self.model: Any = MockProvider(list(responses))
        self.tools = {tool.name: tool for tool in tools or [MockTool("read", "a file")]}
        self.context = SimpleContext()
        self.coordinator = TestCoordinator()
        self.coordinator.mount("context", self.context)
        self.events = EventRecorder()

    async def run(self, prompt: str = "Do it.", kind: Any = basic, config: Any = None, **kwargs: Any) -> str:
        for event in ("provider:request", "provider:response", "tool:pre", "tool:post", "tool:error", "prompt:submit",
                      "orchestrator:complete", "content_block:delta", "provider:error"):  # fmt: skip
            self.coordinator.hooks.register(event, self.events, 100)
        loop = await kind.mount(self.coordinator, config)
        models = kwargs.pop("providers", {"mock": self.model})
        response = await loop.execute(prompt, self.context, models, self.tools, self.coordinator.hooks, **kwargs)
        assert isinstance(response, str)
        return response

    def decide(self, event: str, **decision: Any) -> None:
        async def hook(name: str, data: dict[str, Any]) -> HookResult:
            return HookResult(**decision)

        self.coordinator.hooks.register(event, hook)

    @property
    def results(self) -> list[str]:
        """The texts of the tool results in the history."""
        return [message["content"] for message in self.context._messages if message["role"] == "tool"]

    @property
    def outcome(self) -> dict[str, Any]:
        [(_, data)] = self.events.get_events("orchestrator:complete")
        return data


async def test_calls_of_one_response_run_concurrently_and_results_keep_their_order() -> None:
    both = anyio.Event()
    running: list[str] = []

    class Meeting(MockTool):
        async def meet(self, input: dict[str, Any]) -> ToolResult:
            running.append(self.name)
            if len(running) == 2:
                both.set()
            await both.wait()
            return ToolResult(output=f"{self.name} met")

        def __init__(self, name: str) -> None:
            super().__init__(name)
            self.execute = self.meet  # type: ignore[assignment,method-assign]

    scene = Scene(request_calls(("one", {}), ("two", {})), "Done.", tools=[Meeting("one"), Meeting("two")])
    with anyio.fail_after(TIMEOUT):
        assert await scene.run() == "Done."
    assert scene.results == ["one met", "two met"]
    groups = {data["parallel_group_id"] for _, data in scene.events.get_events("tool:pre")}
    assert len(groups) == 1


async def test_the_model_sees_tools_history_and_results() -> None:
    scene = Scene(request_calls(("read", {"path": "a"}), text="I look."), "It is a file.")
    assert await scene.run("What is it?") == "It is a file."
    [first, second] = scene.model.requests
    assert [(tool.name, tool.description) for tool in first.tools] == [("read", "Mock tool: read")]
    assert [message.role for message in second.messages] == ["user", "assistant", "tool"]
    assert second.messages[2].content == "a file"
    assert scene.tools["read"].last_input == {"path": "a"}
    usage = [data["usage"].total_tokens for _, data in scene.events.get_events("provider:response")]
    assert usage == [10, 2]
    assert (scene.outcome["status"], scene.outcome["turn_count"], scene.outcome["tokens"]) == ("success", 2, 12)


async def test_thinking_is_kept_in_the_history_with_its_signature() -> None:
    call = request_calls(("read", {}))
    call.content.insert(0, ThinkingBlock(thinking="Hm.", signature="c2ln"))
    scene = Scene(call, "Done.")
    await scene.run()
    block = scene.model.requests[1].messages[1].content[0]
    assert (block.type, block.signature) == ("thinking", "c2ln")


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("plain text", "plain text"),
        (ToolResult(output={"size": 3}), '{"size":3}'),
        (ToolResult(success=False, error={"message": "no such file"}), "Error: no such file"),
        (
            ToolResult(success=False, output="exit 3: partial", error={"message": "it failed"}),
            "Error: it failed\nexit 3: partial",
        ),
        (ToolResult(output=None), "Success"),
        (RuntimeError("boom"), "Error: 'read' failed: RuntimeError: boom"),
    ],
)
async def test_the_model_reads_results_and_errors(result: Any, text: str) -> None:
    scene = Scene(request_calls(("read", {})), "Done.", tools=[MockTool("read", result)])
    assert await scene.run() == "Done."
    assert scene.results == [text]
    assert bool(scene.events.get_events("tool:error")) == text.startswith("Error")


async def test_an_unknown_tool_is_reported_to_the_model() -> None:
    scene = Scene(request_calls(("write", {})), "Done.")
    await scene.run()
    assert scene.results == ["Error: there is no tool 'write'. The tools are: read."]


async def test_a_denied_call_does_not_run() -> None:
    scene = Scene(request_calls(("read", {})), "Done.")
    scene.decide("tool:pre", action="deny", reason="not today")
    await scene.run()
    assert scene.results == ["Denied: not today"]
    assert scene.tools["read"].call_count == 0
    [(_, data)] = scene.events.get_events("tool:error")
    assert data["error"] == {"type": "denied", "message": "not today"}


@pytest.mark.parametrize(("answer", "runs"), [("Allow", 1), ("Deny", 0)])
async def test_the_user_is_asked(answer: str, runs: int) -> None:
    scene = Scene(request_calls(("read", {})), "Done.")
    scene.coordinator.approvals.answer = answer
    scene.decide("tool:pre", action="ask_user", approval_prompt="May it?")
    await scene.run()
    assert scene.tools["read"].call_count == runs
    assert scene.coordinator.approvals.asked[0]["prompt"] == "May it?"


async def test_without_a_coordinator_a_question_is_a_denial() -> None:
    scene, hooks = Scene(request_calls(("read", {})), "Done."), HookRegistry()

    async def ask(name: str, data: dict[str, Any]) -> HookResult:
        return HookResult(action="ask_user", approval_prompt="May it?")

    hooks.register("tool:pre", ask)
    loop = basic.AgentLoop("loop", basic.LoopConfig())
    await loop.execute("Do it.", scene.context, {"mock": scene.model}, scene.tools, hooks)
    assert scene.results == ["Denied: This call needs approval, but no user can be asked."]


async def test_hooks_change_arguments_and_results() -> None:
    scene = Scene(request_calls(("read", {"path": "a"})), "Done.")
    scene.decide("tool:pre", action="modify", data={"tool_name": "read", "tool_input": {"path": "b"}})
    scene.decide("tool:post", action="modify", data={"result": {"success": True, "output": "[redacted]"}})
    await scene.run()
    assert scene.tools["read"].last_input == {"path": "b"}
    assert scene.results == ["[redacted]"]


async def test_a_result_that_a_hook_denies_does_not_reach_the_model() -> None:
    scene = Scene(request_calls(("read", {})), "Done.")
    scene.decide("tool:post", action="deny", reason="it has a secret")
    await scene.run()
    assert scene.results == ["Denied: it has a secret"]


async def test_injected_texts_are_stored_sent_once_or_appended_to_the_result() -> None:
    scene = Scene(request_calls(("read", {})), "Done.")
    injections = [
        ContextInjection(content="stored"),
        ContextInjection(content="sent once", role="user", ephemeral=True),
        ContextInjection(content="appended", append_to_last_tool_result=True, ephemeral=True),
    ]
    scene.decide("tool:post", action="inject_context", context_injections=injections, context_injection="stored")
    await scene.run()
    assert scene.results == ["a file\n\nappended"]
    assert "stored" in [message["content"] for message in await scene.context.get_messages()]
    assert "sent once" not in str(await scene.context.get_messages())
    assert scene.model.requests[1].messages[-1].content == "sent once"


async def test_a_text_that_a_hook_stores_at_a_request_is_in_this_request() -> None:
    scene = Scene(request_calls(("read", {})), "Done.")
    scene.decide("provider:request", action="inject_context", context_injection="it rains")
    await scene.run()
    counts = [str(request.messages).count("it rains") for request in scene.model.requests]
    assert counts == [1, 2]


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ("prompt:submit", "A hook denied the prompt: no"),
        ("provider:request", "[Stopped early. A hook denied the request to the model: no]"),
    ],
)
async def test_hooks_stop_an_execution(event: str, reason: str) -> None:
    scene = Scene("Done.")
    scene.decide(event, action="deny", reason="no")
    assert await scene.run() == reason
    assert scene.model.call_count == 0


async def test_a_hook_changes_the_prompt() -> None:
    scene = Scene("Done.")
    scene.decide("prompt:submit", action="modify", data={"prompt": "Do it politely."})
    await scene.run()
    assert scene.model.requests[0].messages[0].content == "Do it politely."


DEAR = Usage(input_tokens=60, output_tokens=40, total_tokens=100, cost_usd=Decimal("0.3"))


@pytest.mark.parametrize(
    ("config", "requests", "reason"),
    [
        ({"max_iterations": 3}, 3, "3 requests to the model (max_iterations)"),
        ({"max_tokens": 150}, 2, "150 tokens (max_tokens)"),
        ({"max_cost": "0.5"}, 2, "0.5 US dollars (max_cost)"),
    ],
)
async def test_budgets_end_an_execution(config: dict[str, Any], requests: int, reason: str) -> None:
    class Endless(MockProvider):
        async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
            self.requests.append(request)
            return request_calls(("read", {"number": self.call_count}), usage=DEAR)

    scene = Scene()
    scene.model = Endless()
    assert await scene.run(config=config) == f"[Stopped early. The budget was used up: {reason}.]"
    assert scene.model.call_count == requests
    assert scene.outcome["status"] == "incomplete"


async def test_time_ends_an_execution() -> None:
    class Silent(MockProvider):
        async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
            await anyio.sleep_forever()
            raise AssertionError

    scene = Scene()
    scene.model = Silent()
    text = await scene.run(config={"max_seconds": 0.05})
    assert text == "[Stopped early. The budget was used up: 0.05 seconds (max_seconds).]"


async def test_a_call_that_is_repeated_does_not_run_again() -> None:
    scene = Scene(*[request_calls(("read", {"path": "a"})) for _ in range(5)], "Done.")
    assert await scene.run() == "Done."
    assert scene.tools["read"].call_count == 3
    assert (
        scene.results[3:]
        == ["Error: this call was already made 3 times with the same arguments. Do something else."] * 2
    )


async def test_a_truncated_response_is_continued() -> None:
    responses = [ChatResponse(content=[TextBlock(text=text)], finish_reason="length") for text in ("Once ", "upon ")]
    scene = Scene(*responses, "a time.")
    assert await scene.run() == "Once upon a time."
    assert "truncated" in str(scene.model.requests[1].messages[-1].content)
    assert "truncated" not in str(await scene.context.get_messages())


async def test_a_truncated_tool_call_does_not_run() -> None:
    scene = Scene(request_calls(("read", {}), finish_reason="max_tokens"), "Done.")
    assert await scene.run() == "Done."
    assert scene.tools["read"].call_count == 0
    assert scene.results[0].startswith("Error: the response was truncated")


async def test_every_response_of_an_execution_is_continued_as_often() -> None:
    truncated = ChatResponse(content=[TextBlock(text="First, ")], finish_reason="length")
    scene = Scene(truncated, request_calls(("read", {})), truncated, "done.")
    assert await scene.run(config={"max_continuations": 1}) == "First, done."
    assert scene.tools["read"].call_count == 1


async def test_an_endlessly_truncated_response_ends() -> None:
    scene = Scene(ChatResponse(content=[TextBlock(text="la ")], finish_reason="length"))
    text = await scene.run()
    assert text.startswith("la la la la \n\n[Stopped early. The model's response was truncated")
    assert scene.outcome["status"] == "incomplete"


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (ChatResponse(content=[]), "The model's response was empty."),
        (ChatResponse(content=[TextBlock(text=" ")]), "The model's response was empty."),
        (ChatResponse(content=[ThinkingBlock(thinking="Hm.")]), "The model's response was empty."),
        (ChatResponse(content=[TextBlock(text="I")], finish_reason="refusal"), "The model refused to respond."),
        (ChatResponse(content=[TextBlock(text="I")], finish_reason="content_filter"), "response was filtered."),
        (ChatResponse(content=[TextBlock(text="I")], finish_reason="model_context_window_exceeded"), "window is full."),
    ],
)
async def test_an_incomplete_response_is_no_success(response: ChatResponse, reason: str) -> None:
    scene = Scene(response)
    assert reason in await scene.run()
    assert scene.outcome["status"] == "incomplete"


async def test_a_response_of_a_client_that_was_truncated_is_continued() -> None:
    scene = Scene(ChatResponse(content=[TextBlock(text="Once ")], finish_reason="maxTokens"), "upon a time.")
    assert await scene.run() == "Once upon a time."


async def test_max_cost_stops_before_a_request_whose_price_is_not_known() -> None:
    scene = Scene("Done.")
    scene.model.has_price = lambda: False
    text = await scene.run(config={"max_cost": 1})
    assert "the cost of the provider 'mock' is not known" in text
    assert "or set max_tokens instead" in text
    assert scene.model.call_count == 0


async def test_max_cost_stops_after_a_response_without_a_cost() -> None:
    scene = Scene(request_calls(("read", {})), "Done.")
    assert "is not known" in await scene.run(config={"max_cost": 1})
    assert scene.model.call_count == 1
    assert scene.outcome["status"] == "incomplete"


async def test_calls_are_stored_in_the_form_of_the_contract_too() -> None:
    scene = Scene(request_calls(("read", {"path": "a"})), "Done.")
    await scene.run()
    [call] = (await scene.context.get_messages())[1]["tool_calls"]
    assert call == {
        "id": "read.0",
        "type": "function",
        "function": {"name": "read", "arguments": '{"path":"a"}'},
        "tool": "read",
        "arguments": {"path": "a"},
    }


async def test_provider_request_names_the_model() -> None:
    scene = Scene("Done.")
    await scene.run(providers={"scripted": ScriptedProvider([ScriptedTurn(text="Done.")])})
    [(_, data)] = scene.events.get_events("provider:request")
    assert (data["provider"], data["model"]) == ("scripted", "scripted")


async def test_two_calls_with_one_id_get_their_own_results() -> None:
    response = request_calls(("read", {"path": "a"}), ("list", {"path": "b"}))
    for part in (*response.content, *(response.tool_calls or ())):
        part.id = "same"  # type: ignore[union-attr]
    scene = Scene(response, "Done.", tools=[MockTool("read", "a file"), MockTool("list", "a folder")])
    assert await scene.run() == "Done."
    history = await scene.context.get_messages()
    requested = [block["id"] for block in history[1]["content"]]
    assert requested == [call["id"] for call in history[1]["tool_calls"]] == ["same", "same_2"]
    results = {message["tool_call_id"]: message["content"] for message in history if message["role"] == "tool"}
    assert results == {"same": "a file", "same_2": "a folder"}


async def test_images_of_results_are_in_the_history_with_the_error() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aWNvbg=="}}
    result = ToolResult(success=False, error={"message": "it is broken"}, output="a chart", content=[image])
    scene = Scene(request_calls(("read", {})), "Done.", tools=[MockTool("read", result)])
    await scene.run()
    [message] = [message for message in await scene.context.get_messages() if message["role"] == "tool"]
    assert message["content"] == [{"type": "text", "text": "Error: it is broken\na chart"}, image]
    assert message["is_error"] is True


async def test_a_failing_provider_is_reported() -> None:
    class Failing(MockProvider):
        async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
            raise RateLimitError("too many requests", provider="mock")

    scene = Scene()
    scene.model = Failing()
    text = await scene.run()
    assert text == "[Stopped early. The provider 'mock' failed: RateLimitError: too many requests]"
    [(_, data)] = scene.events.get_events("provider:error")
    assert data["error"] == {"type": "RateLimitError", "message": "too many requests"}


async def test_the_model_repeats_a_call_with_invalid_arguments() -> None:
    class Careless(MockProvider):
        async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
            if not self.requests:
                self.requests.append(request)
                raise InvalidToolCallError("The arguments are not a JSON object.", tool_name="read")
            return await super().complete(request, **kwargs)

    scene = Scene()
    scene.model = Careless(["Done."])
    assert await scene.run() == "Done."
    assert scene.model.requests[1].messages[-1].content == "The arguments are not a JSON object."


@pytest.mark.parametrize("error", [InvalidToolCallError("This is no JSON object."), ValueError("There is no call.")])
async def test_a_response_whose_calls_cannot_be_read_counts_against_the_budget(error: Exception) -> None:
    class Unreadable(MockProvider):
        def parse_tool_calls(self, response: ChatResponse) -> Any:
            raise error

    scene = Scene()
    scene.model = Unreadable([request_calls(("read", {}))])
    await scene.run(config={"max_tokens": 10})
    assert (scene.outcome["status"], scene.outcome["tokens"], scene.model.call_count) == ("incomplete", 10, 1)


async def test_max_cost_stops_after_an_invalid_call_without_a_cost() -> None:
    class Careless(MockProvider):
        async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
            self.requests.append(request)
            raise InvalidToolCallError("The arguments are not a JSON object.", tool_name="read")

    scene = Scene()
    scene.model = Careless()
    assert "The budget max_cost cannot be kept" in await scene.run(config={"max_cost": 1})
    assert len(scene.model.requests) == 1


async def test_a_call_without_an_id_in_the_history_gets_no_result() -> None:
    scene = Scene("Done.")
    await scene.context.add_message({"role": "assistant", "content": "", "tool_calls": [{"tool": "read"}, "read"]})
    assert await scene.run() == "Done."
    assert scene.results == []


@pytest.mark.parametrize(
    ("config", "kwargs", "chosen"),
    [(None, {}, "one"), ({"default_provider": "two"}, {}, "two"), (None, {"provider": "two"}, "two")],
)
async def test_a_provider_is_chosen(config: Any, kwargs: dict[str, Any], chosen: str) -> None:
    scene = Scene()
    models = {name: MockProvider([name]) for name in ("one", "two")}
    assert await scene.run(config=config, providers=models, **kwargs) == chosen


async def test_a_provider_that_is_not_mounted_is_reported() -> None:
    scene = Scene()
    text = await scene.run(config={"default_provider": "three"})
    assert text == "There is no provider 'three'. Mounted providers: mock."
    assert scene.outcome["status"] == "error"


async def test_a_cancelled_session_makes_no_further_request() -> None:
    scene = Scene(request_calls(("read", {})), "Done.")

    async def cancel(name: str, data: dict[str, Any]) -> None:
        await scene.coordinator.request_cancel()

    scene.coordinator.hooks.register("tool:post", cancel)
    assert await scene.run() == "[Stopped early. The session was cancelled.]"
    assert scene.model.call_count == 1


async def test_cancelling_an_execution_cancels_its_tools() -> None:
    has_started, has_ended = anyio.Event(), []

    class Slow(MockTool):
        def __init__(self) -> None:
            super().__init__("slow")
            self.execute = self.wait  # type: ignore[assignment,method-assign]

        async def wait(self, input: dict[str, Any]) -> ToolResult:
            has_started.set()
            try:
                await anyio.sleep_forever()
            finally:
                has_ended.append(True)

    scene = Scene(request_calls(("slow", {})), tools=[Slow()])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(scene.run)
        await has_started.wait()
        assert scene.coordinator.cancellation.running_tool_names == ["slow"]
        tasks.cancel_scope.cancel()
    assert has_ended == [True]
    assert not scene.coordinator.cancellation.running_tools


async def test_loop_streaming_reports_text_as_it_comes() -> None:
    scene = Scene()
    scene.model = ScriptedProvider(
        [ScriptedTurn.model_validate({"text": "I look.", "calls": [{"name": "read"}]}), "Done."]
    )
    assert await scene.run(kind=streaming) == "Done."
    assert [data["delta"] for _, data in scene.events.get_events("content_block:delta")] == ["I look.", "Done."]


async def test_loop_streaming_works_with_providers_that_cannot_stream() -> None:
    class Plain(MockProvider):
        async def complete(self, request: ChatRequest) -> ChatResponse:  # type: ignore[override]
            return await super().complete(request)

    scene = Scene()
    scene.model = Plain(["Done."])
    assert await scene.run(kind=streaming) == "Done."


async def test_an_execution_without_a_provider_reports_this() -> None:
    assert await Scene().run(providers={}) == "No provider is mounted."


async def test_a_provider_that_returns_nothing_is_reported() -> None:
    class Empty(MockProvider):
        async def complete(self, request: ChatRequest, **kwargs: Any) -> Any:
            return None

    scene = Scene()
    scene.model = Empty()
    assert (await scene.run()).startswith("[Stopped early. The provider 'mock' failed: ")
