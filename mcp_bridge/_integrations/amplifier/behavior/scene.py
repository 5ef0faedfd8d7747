"""The models, tools, context and hooks for the orchestrator in a test of the suite.

A test prepares the responses of the model in an `OrchestratorScene`, executes the orchestrator, and then looks at the
requests, the history and the events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import anyio

from mcp_bridge._integrations.amplifier import events
from mcp_bridge._integrations.amplifier.behavior.module_tests import require
from mcp_bridge._integrations.amplifier.doubles import EventRecorder, MockContextManager, MockProvider, MockTool
from mcp_bridge._integrations.amplifier.message_models import (
    Block,
    ChatRequest,
    ChatResponse,
    TextBlock,
    ToolCall,
    ToolCallBlock,
    Usage,
)
from mcp_bridge._integrations.amplifier.models import HookResult
from mcp_bridge._integrations.amplifier.module_import import CORE_PACKAGE

PROMPT, ANSWER, RESULT = "How large is it?", "It is three centimetres.", "3 cm, says the ruler"
RECORDED = (
    events.PROVIDER_REQUEST, events.PROVIDER_RESPONSE, events.PROVIDER_ERROR, events.TOOL_PRE, events.TOOL_POST,
    events.TOOL_ERROR, events.ORCHESTRATOR_COMPLETE,
)  # fmt: skip
# The recorder runs after all other hooks.
_LAST = 1000
_MOST_REQUESTS = 20


def request_calls(*calls: tuple[str, dict[str, Any]], before: Sequence[Block] = ()) -> ChatResponse:
    """Return a response that requests tool calls, with the ids `call_0`, `call_1` and so on."""
    tool_calls = []
    blocks = []
    for index, (name, arguments) in enumerate(calls):
        tool_calls.append(ToolCall(id=f"call_{index}", name=name, arguments=arguments))
        blocks.append(ToolCallBlock(id=f"call_{index}", name=name, input=arguments))
    usage = Usage(input_tokens=6, output_tokens=4, total_tokens=10)
    return ChatResponse(content=[*before, *blocks], tool_calls=tool_calls, usage=usage, finish_reason="tool_use")


class PreparedModel(MockProvider):
    """Returns `responses` in turn. By default, it calls the tool `measure` and then returns ANSWER."""

    def __init__(self, *responses: Any) -> None:
        super().__init__(responses or (request_calls(("measure", {"unit": "cm"})), ANSWER))


class EndlessModel(MockProvider):
    """Requests tool calls with different arguments each time. It stops after many requests, so every test ends."""

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        self.requests.append(request)
        if self.call_count >= _MOST_REQUESTS:
            return ChatResponse(content=[TextBlock(text=ANSWER)])
        return request_calls(("measure", {"attempt": self.call_count}))


class PendingCall:
    """A call without an end. It records its start and its cancellation."""

    def __init__(self) -> None:
        self.has_started = anyio.Event()
        self.was_cancelled = False

    async def wait_forever(self) -> None:
        self.has_started.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.was_cancelled = True


class PendingModel(MockProvider):
    """A model that never responds."""

    def __init__(self, call: PendingCall) -> None:
        super().__init__()
        self._call = call

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        await self._call.wait_forever()
        return await super().complete(request, **kwargs)


class CoreModel:
    """Wraps a model, and returns its responses in the class of amplifier-core."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    async def complete(self, request: Any, **kwargs: Any) -> Any:
        response = await self._model.complete(request, **kwargs)
        return import_module(f"{CORE_PACKAGE}.message_models").ChatResponse.model_validate(response.model_dump())


class FunctionTool(MockTool):
    """A tool that runs a function."""

    def __init__(self, name: str, function: Callable[[], Any]) -> None:
        super().__init__(name)
        self._function = function
        self.execute = self._run  # type: ignore[assignment]

    async def _run(self, input: dict[str, Any]) -> Any:
        self.inputs.append(input)
        return await self._function()


class RecordedContext(MockContextManager):
    """Counts the calls of `get_messages_for_request`."""

    def __init__(self) -> None:
        super().__init__()
        self.request_count = 0

    async def get_messages_for_request(
        self, token_budget: int | None = None, provider: Any | None = None
    ) -> list[dict[str, Any]]:
        self.request_count += 1
        return await super().get_messages_for_request(token_budget, provider)


class OrchestratorScene:
    """One orchestrator with its model, tools, context and hooks. `execute` runs it."""

    def __init__(
        self, coordinator: Any, host: str, model: MockProvider | None = None, tools: Sequence[MockTool] = ()
    ) -> None:
        self.coordinator = coordinator
        self._host = host
        self.model = model or PreparedModel()
        self.tool = MockTool("measure", RESULT)
        self.tools = {tool.name: tool for tool in tools or [self.tool]}
        self.context = RecordedContext()
        self.recorder = EventRecorder()
        # The coordinator stores injected texts in this context.
        coordinator.mount_points["context"] = self.context
        for event in RECORDED:
            coordinator.hooks.register(event, self.recorder, _LAST)

    def decide(self, event: str, **decision: Any) -> None:
        """Register a hook that always returns one decision."""

        async def hook(name: str, data: dict[str, Any]) -> HookResult:
            return HookResult(**decision)

        self.coordinator.hooks.register(event, hook)

    async def execute(self, prompt: str = PROMPT, providers: Mapping[str, Any] | None = None) -> str:
        """Run the orchestrator with all arguments, as amplifier-core passes them."""
        models = {"mock": self.model} if providers is None else dict(providers)
        if self._host == "core":
            models = {name: CoreModel(model) for name, model in models.items()}
        result: Any = await self.coordinator.mount_points["orchestrator"].execute(
            prompt=prompt,
            context=self.context,
            providers=models,
            tools=self.tools,
            hooks=self.coordinator.hooks,
            coordinator=self.coordinator,
        )
        require(isinstance(result, str), f"`execute` returned a {type(result).__name__}, not a string")
        return str(result)

    @property
    def last_request(self) -> Any:
        """The messages that the model received last."""
        require(self.model.requests, "the model was not asked")
        return self.model.requests[-1].messages

    @property
    def results(self) -> dict[str, str]:
        """The texts of the tool results in the last request, by the ids of their calls."""
        texts: dict[str, str] = {}
        for message in self.last_request:
            if message.role == "tool":
                require(message.tool_call_id not in texts, f"there are two results for {message.tool_call_id}")
                texts[str(message.tool_call_id)] = str(message.content)
        return texts
