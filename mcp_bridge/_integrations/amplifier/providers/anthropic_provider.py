"""`provider-anthropic`: models of Anthropic, and endpoints that speak its Messages API (extra `anthropic`)."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Any

import anthropic
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from mcp_bridge._integrations.amplifier import llm_errors
from mcp_bridge._integrations.amplifier.endings import TRUNCATED
from mcp_bridge._integrations.amplifier.message_models import (
    Block,
    ChatRequest,
    ChatResponse,
    ImageBlock,
    Message,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolCallBlock,
    ToolResultBlock,
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
from mcp_bridge._integrations.amplifier.providers.history import (
    is_failed,
    list_calls,
    list_results,
    pair_results,
    render_text,
    split_output,
)

logger = logging.getLogger("mcp_bridge.amplifier")

__amplifier_module_type__ = "provider"

KEY_VARIABLE = "ANTHROPIC_API_KEY"
_NAME = "anthropic"
_LENGTH_ERRORS = ("context_length", "context length", "too long", "maximum context")
_OPTIONS = frozenset({"model", "temperature", "top_p", "max_output_tokens", "stop", "reasoning_effort"})
_BY_STATUS: dict[int, type[llm_errors.LLMError]] = {
    400: llm_errors.InvalidRequestError,
    401: llm_errors.AuthenticationError,
    403: llm_errors.AccessDeniedError,
    404: llm_errors.NotFoundError,
    408: llm_errors.LLMTimeoutError,
    413: llm_errors.ContextLengthError,
    422: llm_errors.InvalidRequestError,
    429: llm_errors.RateLimitError,
}


class ModelPrice(BaseModel):
    """The price of a model in US dollars per million tokens. Cached tokens cost as much as others by default."""

    model_config = ConfigDict(extra="forbid")

    input: Decimal = Field(ge=0)
    output: Decimal = Field(ge=0)
    cache_read: Decimal | None = Field(default=None, ge=0)
    cache_write: Decimal | None = Field(default=None, ge=0)

    def compute_cost(self, usage: Usage) -> Decimal:
        read, written = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
        cached = read * (self.input if self.cache_read is None else self.cache_read)
        cached += written * (self.input if self.cache_write is None else self.cache_write)
        uncached = max(0, usage.input_tokens - read - written)
        return (uncached * self.input + cached + usage.output_tokens * self.output) / 1_000_000


class AnthropicConfig(BaseModel):
    """The configuration of `provider-anthropic`.

    Attributes:
        api_key: The key; by default that of the environment variable.
        base_url: The address of a compatible endpoint.
        default_model: The model of requests that do not name one.
        max_tokens: The most tokens of a response.
        context_window: The window of the model in tokens, from which contexts compute their budget.
        timeout: Seconds that one attempt may take.
        max_retries: How often the SDK repeats a request that failed for a transient reason, with growing pauses.
        prices: The prices of models by name or pattern; the first that matches is used.
    """

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)

    api_key: SecretStr | None = None
    base_url: str | None = None
    default_model: str = "claude-sonnet-5-5"
    max_tokens: int = Field(default=16_000, gt=0)
    context_window: int = Field(default=200_000, gt=0)
    timeout: float = Field(default=600.0, gt=0)
    max_retries: int = Field(default=4, ge=0)
    prices: dict[str, ModelPrice] = Field(default_factory=dict)

    def find_price(self, model: str) -> ModelPrice | None:
        return next((price for name, price in self.prices.items() if fnmatchcase(model, name)), None)


class AnthropicProvider:
    """Models over the Messages API. The SDK repeats requests that fail for a transient reason."""

    name = _NAME

    def __init__(self, config: AnthropicConfig, api_key: str) -> None:
        self._config = config
        self._client = anthropic.AsyncAnthropic(
            api_key=api_key, base_url=config.base_url, timeout=config.timeout, max_retries=config.max_retries
        )
        self.info_model = ProviderInfo
        self.events = ProviderEvents()

    def get_info(self) -> ProviderInfo:
        config = self._config
        sizes = {"context_window": config.context_window, "max_output_tokens": config.max_tokens}
        return self.info_model(
            id=self.name,
            display_name="Anthropic",
            credential_env_vars=[KEY_VARIABLE],
            capabilities=["streaming", "tools", "vision"],
            defaults={"model": config.default_model, **sizes},
        )

    async def list_models(self) -> list[ModelInfo]:
        """Return the models of the account; those whose sizes the API does not report have the configured ones.

        Raises LLMError.
        """
        try:
            found = [model async for model in self._client.models.list()]
        except Exception as error:  # the SDK raises what its parsing raises
            raise _to_llm_error(error, "") from error
        config = self._config
        return [
            ModelInfo(
                id=model.id,
                display_name=getattr(model, "display_name", model.id),
                context_window=getattr(model, "max_input_tokens", None) or config.context_window,
                max_output_tokens=getattr(model, "max_tokens", None) or config.max_tokens,
            )
            for model in found
        ]

    async def complete(
        self, request: ChatRequest, *, on_text: TextListener | None = None, **kwargs: Any
    ) -> ChatResponse:
        """Return the model's response; `on_text` receives its text as it arrives. Raises LLMError."""
        given = _apply_options(read_request(request), kwargs)
        model = given.model or self._config.default_model
        async with self.events.report_completion(self.name, model, given) as report:
            response = await self._complete(given, model, on_text, kwargs)
            price = self._config.find_price(model)
            if price is not None and response.usage is not None:
                response.usage.cost_usd = price.compute_cost(response.usage)
            report.usage = response.usage
        return response

    async def _complete(
        self, request: ChatRequest, model: str, on_text: TextListener | None, options: Mapping[str, Any]
    ) -> ChatResponse:
        """Return the response of a model.

        With `extended_thinking`, which loops pass if they are configured so, the model decides how much it thinks.
        """
        params = self._build_params(request, model)
        if options.get("extended_thinking"):
            params["thinking"] = {"type": "adaptive"}
        try:
            async with self._client.messages.stream(**params) as stream:
                if on_text is not None:
                    async for text in stream.text_stream:
                        await on_text(text)
                return _read_response(await stream.get_final_message(), model)
        except llm_errors.LLMError:
            raise
        except Exception as error:  # the SDK raises what its parsing raises
            raise _to_llm_error(error, model) from error

    def _build_params(self, request: ChatRequest, model: str) -> dict[str, Any]:
        most = self._config.max_tokens
        params: dict[str, Any] = {
            "model": model,
            "max_tokens": min(request.max_output_tokens or most, most),
            "messages": build_messages(request.messages),
        }
        system = [render_text(each.content) for each in request.messages if each.role in ("system", "developer")]
        if system:
            params["system"] = "\n\n".join(system)
        if request.tools:
            params["tools"] = [
                {"name": tool.name, "description": tool.description or "", "input_schema": tool.parameters}
                for tool in request.tools
            ]
        sampling = {"temperature": request.temperature, "top_p": request.top_p}  # of older models and other endpoints
        extra = {key: value for key, value in sampling.items() if value is not None}
        optional = {"stop_sequences": request.stop, "timeout": request.timeout, "extra_body": extra or None}
        return params | {key: value for key, value in optional.items() if value is not None}

    def has_price(self) -> bool:
        """Whether the price of the default model is known."""
        return self._config.find_price(self._config.default_model) is not None

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        return parse_tool_calls(response)

    async def close(self) -> None:
        await self._client.close()


def _apply_options(request: ChatRequest, options: Mapping[str, Any]) -> ChatRequest:
    """Return a request with the further arguments of `complete`: some orchestrators pass its fields that way."""
    changed = {name: value for name, value in options.items() if name in _OPTIONS and value is not None}
    return request.model_copy(update=changed) if changed else request


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
        {"type": "tool_use", "id": each.id, "name": each.name, "input": each.input} for each in list_calls(message)
    ]
    return blocks + calls


def _build_tool_result(result: ToolResultBlock) -> dict[str, Any]:
    text, images = split_output(result.output)
    content: Any = text
    if images:
        content = [{"type": "text", "text": text}] if text.strip() else []
        content += [{"type": "image", "source": image.source} for image in images]
    failed = {"is_error": True} if is_failed(result) else {}
    return {"type": "tool_result", "tool_use_id": result.tool_call_id, "content": content, **failed}


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
    """Return a response without a truncated tool call. Raises ContentFilterError if the model refused."""
    if message.stop_reason == "refusal":
        text = "".join(block.text for block in message.content if block.type == "text")
        raise llm_errors.ContentFilterError(
            f"{_NAME}: the model refused to respond. {text}".rstrip(), model=model, provider=_NAME
        )
    blocks = list(message.content)
    if message.stop_reason in TRUNCATED and blocks and blocks[-1].type == "tool_use":
        del blocks[-1]  # the SDK completes its arguments, so that the call would run with a part of them
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
    sent = usage.input_tokens + read + written
    tokens = Usage(
        input_tokens=sent,
        output_tokens=usage.output_tokens,
        total_tokens=sent + usage.output_tokens,
        cache_read_tokens=read,
        cache_write_tokens=written,
    )
    return build_response(content, usage=tokens, finish_reason=message.stop_reason)


def _to_llm_error(error: Exception, model: str) -> llm_errors.LLMError:
    """Convert an error of the SDK. Other errors come from responses that it cannot parse."""
    name, status = type(error).__name__, getattr(error, "status_code", None)
    details: dict[str, Any] = {"provider": _NAME, "model": model, "status_code": status}
    text = f"{_NAME}: {getattr(error, 'message', None) or error}"
    if "Timeout" in name:
        return llm_errors.LLMTimeoutError(text, **details)
    if "Connection" in name:
        return llm_errors.NetworkError(text, **details)
    if not isinstance(status, int):
        return llm_errors.StreamError(f"{_NAME}: the response is not one of this API ({name})", **details)
    if status in (400, 422) and any(words in text.lower() for words in _LENGTH_ERRORS):
        return llm_errors.ContextLengthError(text, **details)
    kind = _BY_STATUS.get(status) or (
        llm_errors.ProviderUnavailableError if status >= 500 else llm_errors.InvalidRequestError
    )
    return kind(text, retry_after=_read_retry_after(error), **details)


def _read_retry_after(error: Exception) -> float | None:
    headers: Mapping[str, str] = getattr(getattr(error, "response", None), "headers", {})
    try:
        return float(headers.get("retry-after", ""))
    except ValueError:
        return None


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Callable[[], Awaitable[None]] | None:
    """Mount the provider, and return its cleanup; None without an API key, with a line in the log."""
    options = AnthropicConfig(**(config or {}))
    key = options.api_key.get_secret_value() if options.api_key is not None else os.environ.get(KEY_VARIABLE, "")
    if not key.strip():
        logger.warning("the provider is not mounted: set %s, or `api_key` in its configuration", KEY_VARIABLE)
        return None
    provider = AnthropicProvider(options, key.strip())
    await mount_provider(coordinator, provider)
    return provider.close
