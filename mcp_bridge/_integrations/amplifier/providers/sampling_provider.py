"""`provider-sampling`: the model of the connected client, through MCP's sampling (client/sampling).

Clients declare whether they support sampling, and tools in its requests. MCP deprecates sampling in 2026-07-28.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from mcp_bridge._contracts.content import Text
from mcp_bridge._contracts.errors import MissingCapability
from mcp_bridge._contracts.question import Sampled
from mcp_bridge._integrations.amplifier.llm_errors import ConfigurationError
from mcp_bridge._integrations.amplifier.message_models import (
    Block,
    ChatRequest,
    ChatResponse,
    ImageBlock,
    Message,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    Usage,
)
from mcp_bridge._integrations.amplifier.models import ModelInfo, ProviderInfo
from mcp_bridge._integrations.amplifier.providers.common import IncludedProvider, build_response, mount_provider
from mcp_bridge._integrations.amplifier.providers.history import (
    is_failed,
    list_calls,
    list_results,
    pair_results,
    render_text,
    split_output,
)
from mcp_bridge._integrations.amplifier.results import estimate_json_tokens
from mcp_bridge._integrations.amplifier.running_call import AGENT_CALL

__amplifier_module_type__ = "provider"

_SYSTEM_ROLES = ("system", "developer")


class SamplingConfig(BaseModel):
    """The configuration of `provider-sampling`.

    Attributes:
        max_tokens: The maximum number of tokens of a response.
        context_window: An estimate of the model's window in tokens, because MCP has no field for it.
    """

    model_config = ConfigDict(extra="ignore")

    max_tokens: int = Field(default=4096, gt=0)
    context_window: int = Field(default=100_000, gt=0)


class SamplingProvider(IncludedProvider):
    """The model of the client, for the agent in a call of this client."""

    name = "sampling"

    def __init__(self, config: SamplingConfig) -> None:
        super().__init__()
        self._config = config

    def get_info(self) -> ProviderInfo:
        sizes = {"context_window": self._config.context_window, "max_output_tokens": self._config.max_tokens}
        return self.info_model(id=self.name, display_name="The client's model", capabilities=["tools"], defaults=sizes)

    async def list_models(self) -> list[ModelInfo]:
        """Return no models: the client chooses."""
        return []

    def has_price(self) -> bool:
        """Return False: the client pays, and MCP has no field for the cost."""
        return False

    async def create_response(self, request: ChatRequest) -> ChatResponse:
        """Return the response of the client's model. Raises LLMError outside a call, and if the client has no model."""
        ctx = AGENT_CALL.get()
        if ctx is None:
            message = "The client's model is only available to an agent that runs in a call of the client."
            raise ConfigurationError(message, provider=self.name)
        tools = []
        for tool in request.tools or ():
            tools.append({"name": tool.name, "description": tool.description or "", "inputSchema": tool.parameters})
        system = [render_text(message.content) for message in request.messages if message.role in _SYSTEM_ROLES]
        messages = build_messages(request.messages)
        try:
            sample = await ctx.sample(
                messages,
                max_tokens=min(request.max_output_tokens or self._config.max_tokens, self._config.max_tokens),
                system_prompt="\n\n".join(system) or None,
                temperature=request.temperature,
                stop_sequences=request.stop,
                tools=tools or None,
            )
        except MissingCapability as error:
            message = (
                "The client does not support sampling in the way that this agent needs to use the client's model. "
                f"{error} Use a client that declares it, or another provider."
            )
            raise ConfigurationError(message, provider=self.name) from error
        response = _read_response(sample)
        # The result of sampling has no usage, but budgets need an estimate.
        blocks = [block.model_dump(mode="json") for block in response.content]
        input_tokens = estimate_json_tokens([messages, system, tools])
        output_tokens = estimate_json_tokens(blocks)
        total_tokens = input_tokens + output_tokens
        response.usage = Usage(input_tokens=input_tokens, output_tokens=output_tokens, total_tokens=total_tokens)
        return response


def build_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return messages in the form of sampling/createMessage.

    Consecutive messages of one role become one message. A message with tool results has the role `user` and no other
    content (2025-11-25, client/sampling).
    """
    turns: list[dict[str, Any]] = []
    history = [message for message in messages if message.role not in _SYSTEM_ROLES]
    for message in pair_results(history):
        blocks = _build_blocks(message)
        if not blocks:
            continue
        role = "assistant" if message.role == "assistant" else "user"
        last_turn = turns[-1] if turns else None
        if (
            last_turn is not None
            and last_turn["role"] == role
            and _has_results(last_turn["content"]) == _has_results(blocks)
        ):
            last_turn["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    return turns


def _has_results(blocks: Sequence[dict[str, Any]]) -> bool:
    return any(block["type"] == "tool_result" for block in blocks)


def _build_blocks(message: Message) -> list[dict[str, Any]]:
    if message.role in ("tool", "function"):
        return [_build_tool_result(result) for result in list_results(message)]
    content = [TextBlock(text=message.content)] if isinstance(message.content, str) else message.content
    blocks: list[dict[str, Any]] = []
    for block in content:
        if isinstance(block, TextBlock) and block.text:
            blocks.append({"type": "text", "text": block.text})
        elif isinstance(block, ImageBlock):
            blocks += _build_image(block)
    for call in list_calls(message):
        blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": call.input})
    return blocks


def _build_tool_result(result: ToolResultBlock) -> dict[str, Any]:
    text, images = split_output(result.output)
    content = []
    if text or not images:
        content.append({"type": "text", "text": text})
    for image in images:
        content += _build_image(image)
    block: dict[str, Any] = {"type": "tool_result", "toolUseId": result.tool_call_id, "content": content}
    if is_failed(result):
        block["isError"] = True
    return block


def _build_image(image: ImageBlock) -> list[dict[str, Any]]:
    if "data" not in image.source:
        return []
    mime_type = image.source.get("media_type", "image/png")
    return [{"type": "image", "data": image.source["data"], "mimeType": mime_type}]


def _read_response(sample: Sampled) -> ChatResponse:
    content: list[Block] = []
    for block in sample.content:
        if isinstance(block, Text):
            content.append(TextBlock(text=block.text))
        elif isinstance(block, Mapping) and block.get("type") == "tool_use":
            content.append(ToolCallBlock(id=block["id"], name=block["name"], input=dict(block["input"])))
    return build_response(content, finish_reason=sample.stop_reason, metadata={"model": sample.model})


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Any:
    """Mount the provider. Raises ValueError for an invalid configuration."""
    provider = SamplingProvider(SamplingConfig(**(config or {})))
    await mount_provider(coordinator, provider)
    return provider
