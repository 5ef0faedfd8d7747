"""A provider module over the official SDK of the Messages API, for tests of agents with a local model server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

import anthropic
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from mcp_bridge._integrations.amplifier import llm_errors
from mcp_bridge._integrations.amplifier.message_models import (
    TRUNCATED,
    Block,
    ChatRequest,
    ChatResponse,
    ImageBlock,
    Message,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    Usage,
)
from mcp_bridge._integrations.amplifier.models import ModelInfo, ProviderInfo
from mcp_bridge._integrations.amplifier.providers.common import (
    IncludedProvider,
    TextListener,
    build_response,
    mount_provider,
    read_request,
)
from mcp_bridge._integrations.amplifier.providers.history import (
    is_failed,
    list_calls,
    list_results,
    pair_results,
    render_text,
    split_output,
)

__amplifier_module_type__ = "provider"

MODULE = "from tests.kits.amplifier.messages_provider import mount"
"""The code of a module with this provider."""
_NAME = "messages"
_OPTIONS = frozenset({"model", "temperature", "top_p", "max_output_tokens", "stop", "reasoning_effort"})


class ModelConfig(BaseModel):
    """The configuration of the provider. `price` is the price of a token."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)

    api_key: SecretStr
    base_url: str
    default_model: str = "claude-sonnet-5-5"
    max_tokens: int = Field(default=16_000, gt=0)
    context_window: int = Field(default=200_000, gt=0)
    max_retries: int = Field(default=4, ge=0)
    price: Decimal | None = None


class MessagesProvider(IncludedProvider):
    """Models over the Messages API."""

    name = _NAME

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self._config = config
        key = config.api_key.get_secret_value()
        self._client = anthropic.AsyncAnthropic(api_key=key, base_url=config.base_url, max_retries=config.max_retries)

    def get_info(self) -> ProviderInfo:
        config = self._config
        sizes = {"context_window": config.context_window, "max_output_tokens": config.max_tokens}
        return self.info_model(
            id=self.name,
            display_name="Anthropic",
            capabilities=["streaming", "tools", "vision"],
            defaults={"model": config.default_model, **sizes},
        )

    async def list_models(self) -> list[ModelInfo]:
        return []

    async def complete(
        self, request: ChatRequest, *, on_text: TextListener | None = None, **kwargs: Any
    ) -> ChatResponse:
        """Return the model's response; `on_text` receives its text as it arrives. Raises LLMError."""
        chat_request = _apply_options(read_request(request), kwargs)
        model = chat_request.model or self._config.default_model
        create_response = partial(self._complete, chat_request, model, on_text, kwargs)
        return await self.report_completion(model, chat_request, create_response)

    async def _complete(
        self, request: ChatRequest, model: str, on_text: TextListener | None, options: Mapping[str, Any]
    ) -> ChatResponse:
        """Return the response of a model.

        With `extended_thinking`, an option of loops, the model decides how much it thinks.
        """
        params = self._build_params(request, model)
        if options.get("extended_thinking"):
            params["thinking"] = {"type": "adaptive"}
        try:
            async with self._client.messages.stream(**params) as stream:
                if on_text is not None:
                    async for text in stream.text_stream:
                        await on_text(text)
                response = _read_response(await stream.get_final_message(), model)
        except llm_errors.LLMError:
            raise
        except Exception as error:
            # The SDK passes on any exception of its parsers.
            raise _to_llm_error(error, model) from error
        if self._config.price is not None and response.usage is not None:
            response.usage.cost_usd = response.usage.total_tokens * self._config.price
        return response

    def _build_params(self, request: ChatRequest, model: str) -> dict[str, Any]:
        most = self._config.max_tokens
        params: dict[str, Any] = {
            "model": model,
            "max_tokens": min(request.max_output_tokens or most, most),
            "messages": build_messages(request.messages),
        }
        system = [
            render_text(message.content) for message in request.messages if message.role in ("system", "developer")
        ]
        if system:
            params["system"] = "\n\n".join(system)
        if request.tools:
            params["tools"] = [
                {"name": tool.name, "description": tool.description or "", "input_schema": tool.parameters}
                for tool in request.tools
            ]
        # Older models and other endpoints use these parameters.
        sampling = {"temperature": request.temperature, "top_p": request.top_p}
        extra = {key: value for key, value in sampling.items() if value is not None}
        optional = {"stop_sequences": request.stop, "timeout": request.timeout, "extra_body": extra or None}
        return params | {key: value for key, value in optional.items() if value is not None}

    def has_price(self) -> bool:
        """Whether the price of the default model is known."""
        return self._config.price is not None

    async def close(self) -> None:
        await self._client.close()


def _apply_options(request: ChatRequest, options: Mapping[str, Any]) -> ChatRequest:
    """Return a request with the further arguments of `complete`, because some orchestrators pass its fields there."""
    fields = {name: value for name, value in options.items() if name in _OPTIONS and value is not None}
    return request.model_copy(update=fields) if fields else request


def build_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return messages in the form of the API: turns alternate, and results are in a turn of the user."""
    turns: list[dict[str, Any]] = []
    for message in pair_results([each for each in messages if each.role not in ("system", "developer")]):
        role = "assistant" if message.role == "assistant" else "user"
        blocks = _build_blocks(message)
        if blocks and turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": role, "content": blocks})
    return turns


def _build_blocks(message: Message) -> list[dict[str, Any]]:
    if message.role in ("tool", "function"):
        return [_build_tool_result(result) for result in list_results(message)]
    content = message.content
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) and content.strip() else []
    for block in content if isinstance(content, list) else ():
        blocks += _build_block(block)
    calls = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.input} for call in list_calls(message)
    ]
    return blocks + calls


def _build_tool_result(result: ToolResultBlock) -> dict[str, Any]:
    text, images = split_output(result.output)
    content: Any = text
    if images:
        content = [{"type": "text", "text": text}] if text.strip() else []
        content += [{"type": "image", "source": image.source} for image in images]
    marks = {"is_error": True} if is_failed(result) else {}
    return {"type": "tool_result", "tool_use_id": result.tool_call_id, "content": content, **marks}


def _build_block(block: Block) -> list[dict[str, Any]]:
    """Return a block in the form of the API; none for empty text, and for reasoning of other providers."""
    match block:
        case TextBlock() if block.text.strip():
            return [{"type": "text", "text": block.text}]
        case ThinkingBlock() if block.signature:
            return [{"type": "thinking", "thinking": block.thinking, "signature": block.signature}]
        case RedactedThinkingBlock():
            return [{"type": "redacted_thinking", "data": block.data}]
        case ImageBlock():
            return [{"type": "image", "source": block.source}]
    return []


def _read_response(message: Any, model: str) -> ChatResponse:
    """Return the response without a truncated tool call. Raises ContentFilterError if the model declined to respond."""
    if message.stop_reason == "refusal":
        text = "".join(block.text for block in message.content if block.type == "text")
        raise llm_errors.ContentFilterError(
            f"{_NAME}: the model refused to respond. {text}".rstrip(), model=model, provider=_NAME
        )
    blocks = list(message.content)
    if message.stop_reason in TRUNCATED and blocks and blocks[-1].type == "tool_use":
        # The SDK completes truncated arguments, so the call would run with a part of them.
        del blocks[-1]
    content: list[Block] = []
    for block in blocks:
        match block.type:
            case "text":
                content.append(TextBlock(text=block.text))
            case "thinking":
                content.append(ThinkingBlock(thinking=block.thinking, signature=block.signature))
            case "redacted_thinking":
                content.append(RedactedThinkingBlock(data=block.data))
            case "tool_use":
                content.append(ToolCallBlock(id=block.id, name=block.name, input=dict(block.input)))
    usage = message.usage
    read, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    fresh = usage.input_tokens + read + written
    tokens = Usage(
        input_tokens=fresh,
        output_tokens=usage.output_tokens,
        total_tokens=fresh + usage.output_tokens,
        cache_read_tokens=read,
        cache_write_tokens=written,
    )
    return build_response(content, usage=tokens, finish_reason=message.stop_reason)


def _to_llm_error(error: Exception, model: str) -> llm_errors.LLMError:
    text = f"{_NAME}: {getattr(error, 'message', None) or error}"
    return llm_errors.ProviderUnavailableError(text, provider=_NAME, model=model)


async def mount(coordinator: Any, config: dict[str, Any]) -> Callable[[], Awaitable[None]]:
    """Mount the provider, and return its cleanup."""
    provider = MessagesProvider(ModelConfig(**config))
    await mount_provider(coordinator, provider)
    return provider.close
