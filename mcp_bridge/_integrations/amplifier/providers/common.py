"""What the providers over an official SDK share: configuration, errors, and the order of calls and results."""

from __future__ import annotations

import logging
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from mcp_bridge._integrations.amplifier import events, llm_errors
from mcp_bridge._integrations.amplifier.message_models import (
    Block,
    ChatRequest,
    ChatResponse,
    ToolCall,
    ToolCallBlock,
    Usage,
)
from mcp_bridge._integrations.amplifier.models import ModelInfo, ProviderInfo
from mcp_bridge._integrations.amplifier.module_import import CORE_PACKAGE
from mcp_bridge._integrations.amplifier.providers.history import list_repairs

logger = logging.getLogger("mcp_bridge.amplifier")

PROVIDER_EVENTS = (events.LLM_REQUEST, events.LLM_RESPONSE, events.PROVIDER_TOOL_SEQUENCE_REPAIRED)
TextListener = Callable[[str], Awaitable[object]]
"""Receives the text of a response piece by piece."""
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


class ProviderConfig(BaseModel):
    """The configuration of a provider.

    Attributes:
        api_key: The key; by default it is read from the provider's environment variable.
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
    default_model: str
    max_tokens: int = Field(default=16_000, gt=0)
    context_window: int = Field(default=200_000, gt=0)
    timeout: float = Field(default=600.0, gt=0)
    max_retries: int = Field(default=4, ge=0)
    prices: dict[str, ModelPrice] = Field(default_factory=dict)

    def find_price(self, model: str) -> ModelPrice | None:
        return next((price for name, price in self.prices.items() if fnmatchcase(model, name)), None)


def find_key(config: ProviderConfig, variable: str) -> str | None:
    """Return the API key, or None with a line in the log: a provider without a key is not mounted."""
    key = config.api_key.get_secret_value() if config.api_key is not None else os.environ.get(variable, "")
    if not key.strip():
        logger.warning("the provider is not mounted: set %s, or `api_key` in its configuration", variable)
        return None
    return key.strip()


class CompletionReport:
    """What llm:response reports about a completion; `usage` is None until there is a response."""

    usage: Usage | None = None


class ProviderEvents:
    """Emits the events of a provider: llm:request, llm:response and provider:tool_sequence_repaired."""

    def __init__(self, hooks: Any = None) -> None:
        self._hooks = hooks

    @asynccontextmanager
    async def report_completion(
        self, provider: str, model: str | None, request: ChatRequest
    ) -> AsyncIterator[CompletionReport]:
        """Emit the events of the request before the block, and llm:response after it."""
        report = CompletionReport()
        if self._hooks is None:
            yield report
            return
        head = {"provider": provider, "model": model}
        if repairs := list_repairs(request.messages):
            data = {**head, "repair_count": len(repairs), "repairs": repairs}
            await self._hooks.emit(events.PROVIDER_TOOL_SEQUENCE_REPAIRED, data)
        await self._hooks.emit(events.LLM_REQUEST, {**head, "message_count": len(request.messages)})
        began = time.monotonic()
        try:
            yield report
        except Exception as error:
            failure = {"status": "error", "error": str(error), "error_type": type(error).__name__}
            duration = round((time.monotonic() - began) * 1000)
            await self._hooks.emit(events.LLM_RESPONSE, {**head, **failure, "duration_ms": duration})
            raise
        usage = report.usage.model_dump(mode="json", exclude_none=True) if report.usage is not None else None
        duration = round((time.monotonic() - began) * 1000)
        await self._hooks.emit(events.LLM_RESPONSE, {**head, "status": "ok", "usage": usage, "duration_ms": duration})


class SdkProvider(ABC):
    """A provider over an official SDK, which repeats requests that fail for a transient reason.

    A subclass creates the client of its SDK, and completes requests with it.
    """

    name: ClassVar[str]
    display_name: ClassVar[str]
    key_variable: ClassVar[str]
    """The environment variable with the API key."""

    def __init__(self, config: Any, client: Any) -> None:
        self._config = config
        self._client = client
        self.info_model = ProviderInfo
        self.events = ProviderEvents()

    def get_info(self) -> ProviderInfo:
        config = self._config
        sizes = {"context_window": config.context_window, "max_output_tokens": config.max_tokens}
        return self.info_model(
            id=self.name,
            display_name=self.display_name,
            credential_env_vars=[self.key_variable],
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
            raise to_llm_error(error, self.name, "") from error
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
        given = read_request(request, kwargs)
        model = given.model or self._config.default_model
        async with self.events.report_completion(self.name, model, given) as report:
            response = await self._complete(given, model, on_text, kwargs)
            price = self._config.find_price(model)
            if price is not None and response.usage is not None:
                response.usage.cost_usd = price.compute_cost(response.usage)
            report.usage = response.usage
        return response

    @abstractmethod
    async def _complete(
        self, request: ChatRequest, model: str, on_text: TextListener | None, options: Mapping[str, Any]
    ) -> ChatResponse:
        """Return the response of a model. `options` are the further arguments of `complete`."""

    def has_price(self) -> bool:
        """Whether the price of the default model is known."""
        return self._config.find_price(self._config.default_model) is not None

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        return parse_tool_calls(response)

    async def close(self) -> None:
        await self._client.close()

    def limit_tokens(self, request: ChatRequest) -> int:
        """Return the most tokens of the response."""
        most: int = self._config.max_tokens
        return min(request.max_output_tokens or most, most)


async def mount_provider(coordinator: Any, provider: Any) -> None:
    """Mount a provider, whose events the hooks of the coordinator receive.

    On amplifier-core, `get_info` returns that package's model, which its validators require.
    """
    core = sys.modules.get(CORE_PACKAGE)
    if core is not None and isinstance(coordinator, core.ModuleCoordinator):
        provider.info_model = core.models.ProviderInfo
    provider.events = ProviderEvents(coordinator.hooks)
    await coordinator.mount("providers", provider, name=provider.name)
    coordinator.register_contributor("observability.events", f"provider-{provider.name}", lambda: list(PROVIDER_EVENTS))


async def mount_sdk_provider(coordinator: Any, provider: SdkProvider) -> Callable[[], Awaitable[None]]:
    """Mount a provider over an SDK. Returns the cleanup, which closes its connections."""
    await mount_provider(coordinator, provider)
    return provider.close


def to_llm_error(error: Exception, provider: str, model: str) -> llm_errors.LLMError:
    """Convert an error of an SDK; both use the same names. Other errors come from responses that it cannot parse."""
    name, status = type(error).__name__, getattr(error, "status_code", None)
    details: dict[str, Any] = {"provider": provider, "model": model, "status_code": status}
    text = f"{provider}: {getattr(error, 'message', None) or error}"
    if "Timeout" in name:
        return llm_errors.LLMTimeoutError(text, **details)
    if "Connection" in name:
        return llm_errors.NetworkError(text, **details)
    if not isinstance(status, int):
        return llm_errors.StreamError(f"{provider}: the response is not one of this API ({name})", **details)
    if status in (400, 422) and any(words in text.lower() for words in _LENGTH_ERRORS):
        return llm_errors.ContextLengthError(text, **details)
    if status == 429 and getattr(error, "code", None) == "insufficient_quota":
        return llm_errors.QuotaExceededError(text, **details)
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


def read_request(request: Any, options: Mapping[str, Any] | None = None) -> ChatRequest:
    """Return a request in the models of this package; that of amplifier-core has the same fields.

    `options` are the further arguments of `complete`. Some orchestrators pass fields of the request that way.
    """
    given = request if isinstance(request, ChatRequest) else ChatRequest.model_validate(request.model_dump())
    changed = {name: value for name, value in (options or {}).items() if name in _OPTIONS and value is not None}
    return given.model_copy(update=changed) if changed else given


def parse_tool_calls(response: ChatResponse) -> list[ToolCall]:
    """Return the tool calls of a response."""
    return list(response.tool_calls or ())


def build_response(content: list[Block], **fields: Any) -> ChatResponse:
    """Return a response, with the tool calls of its content."""
    calls = [
        ToolCall(id=block.id, name=block.name, arguments=block.input)
        for block in content
        if isinstance(block, ToolCallBlock)
    ]
    return ChatResponse(content=content, tool_calls=calls or None, **fields)
