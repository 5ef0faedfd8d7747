"""`provider-scripted`: returns responses from its configuration, for demos and tests without a model."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from mcp_bridge._integrations.amplifier.message_models import (
    Block,
    ChatRequest,
    ChatResponse,
    TextBlock,
    ToolCallBlock,
    Usage,
)
from mcp_bridge._integrations.amplifier.models import ModelInfo, ProviderInfo
from mcp_bridge._integrations.amplifier.providers.common import IncludedProvider, build_response, mount_provider

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


class ScriptedProvider(IncludedProvider):
    """Returns its responses in turn. Every further request of the same history gets the last one."""

    name = model = "scripted"

    def __init__(self, responses: list[str | ScriptedTurn]) -> None:
        super().__init__()
        self._turns: list[ScriptedTurn] = []
        for response in responses:
            self._turns.append(ScriptedTurn(text=response) if isinstance(response, str) else response)

    def get_info(self) -> ProviderInfo:
        sizes = {"context_window": 100_000, "max_output_tokens": 1000}
        return self.info_model(id=self.name, display_name="Scripted", defaults={"model": "scripted", **sizes})

    async def list_models(self) -> list[ModelInfo]:
        return [ModelInfo(id="scripted", display_name="Scripted", context_window=100_000, max_output_tokens=1000)]

    async def create_response(self, request: ChatRequest) -> ChatResponse:
        """Return the next response after those in the history of the request, so the provider needs no state."""
        count = sum(message.role == "assistant" for message in request.messages)
        turn = self._turns[min(count, len(self._turns) - 1)]
        content: list[Block] = []
        if turn.text:
            content.append(TextBlock(text=turn.text))
        for call in turn.calls:
            content.append(ToolCallBlock(id=f"call_{uuid4().hex}", name=call.name, input=call.arguments))
        # About four characters are one token.
        input_tokens = sum(len(str(message.content)) for message in request.messages) // 4
        output_tokens = len(turn.text) // 4
        usage = Usage(
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            total_tokens=input_tokens + output_tokens,
            cost_usd=Decimal(0),
        )
        return build_response(content, usage=usage, finish_reason="tool_use" if turn.calls else "end_turn")


_RESPONSES: TypeAdapter[list[str | ScriptedTurn]] = TypeAdapter(list[str | ScriptedTurn])


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Any:
    """Mount the provider. Raises ValueError unless `responses` is a list of texts, or of mappings as ScriptedTurn."""
    responses = _RESPONSES.validate_python((config or {}).get("responses") or ["Done."])
    provider = ScriptedProvider(responses)
    await mount_provider(coordinator, provider)
    return provider
