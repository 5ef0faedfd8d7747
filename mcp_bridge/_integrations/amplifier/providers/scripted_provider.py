"""`provider-scripted`: returns responses from its configuration, for demos and tests without a model."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from mcp_bridge._integrations.amplifier.message_models import (
    Block,
    ChatRequest,
    ChatResponse,
    Message,
    TextBlock,
    ToolCall,
    ToolCallBlock,
    Usage,
)
from mcp_bridge._integrations.amplifier.models import ModelInfo, ProviderInfo
from mcp_bridge._integrations.amplifier.providers.common import (
    ProviderEvents,
    TextListener,
    build_response,
    mount_provider,
    parse_tool_calls,
    read_request,
)

__amplifier_module_type__ = "provider"


class ScriptedCall(BaseModel):
    """A tool call of a scripted response."""

    model_config = ConfigDict(extra="forbid")

    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)


class ScriptedTurn(BaseModel):
    """A scripted response: text, tool calls, or both."""

    model_config = ConfigDict(extra="forbid")

    text: str = ""
    calls: list[ScriptedCall] = Field(default_factory=list)


class ScriptedProvider:
    """Returns its responses in turn, and the last one for every further request of the same history."""

    name = "scripted"

    def __init__(self, responses: list[str | ScriptedTurn]) -> None:
        self._turns = [ScriptedTurn(text=response) if isinstance(response, str) else response for response in responses]
        self.info_model = ProviderInfo
        self.events = ProviderEvents()

    def get_info(self) -> ProviderInfo:
        sizes = {"context_window": 100_000, "max_output_tokens": 1000}
        return self.info_model(id=self.name, display_name="Scripted", defaults={"model": "scripted", **sizes})

    async def list_models(self) -> list[ModelInfo]:
        return [ModelInfo(id="scripted", display_name="Scripted", context_window=100_000, max_output_tokens=1000)]

    async def complete(
        self, request: ChatRequest, *, on_text: TextListener | None = None, **kwargs: Any
    ) -> ChatResponse:
        """Return the response that comes after as many responses as the request has; it keeps no state of its own."""
        chat_request = read_request(request)
        async with self.events.report_completion(self.name, "scripted", chat_request) as report:
            response = self._choose_response(chat_request.messages)
            report.usage = response.usage
        text = "".join(block.text for block in response.content if isinstance(block, TextBlock))
        if on_text is not None and text:
            await on_text(text)
        return response

    def _choose_response(self, messages: Sequence[Message]) -> ChatResponse:
        place = sum(message.role == "assistant" for message in messages)
        response = self._turns[min(place, len(self._turns) - 1)]
        content: list[Block] = [TextBlock(text=response.text)] if response.text else []
        content += [
            ToolCallBlock(id=f"call_{uuid4().hex}", name=call.name, input=call.arguments) for call in response.calls
        ]
        input_tokens, output_tokens = (
            sum(len(str(message.content)) for message in messages) // 4,
            len(response.text) // 4,
        )
        usage = Usage(
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            total_tokens=input_tokens + output_tokens,
            cost_usd=Decimal(0),
        )
        return build_response(content, usage=usage, finish_reason="tool_use" if response.calls else "end_turn")

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        return parse_tool_calls(response)


_RESPONSES: TypeAdapter[list[str | ScriptedTurn]] = TypeAdapter(list[str | ScriptedTurn])


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Any:
    """Mount the provider. Raises ValueError unless `responses` is a list of texts, or of mappings as ScriptedTurn."""
    responses = _RESPONSES.validate_python((config or {}).get("responses") or ["Done."])
    provider = ScriptedProvider(responses)
    await mount_provider(coordinator, provider)
    return provider
