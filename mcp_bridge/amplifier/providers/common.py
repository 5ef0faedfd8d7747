"""What the providers over an official SDK share: configuration, errors, and the order of calls and results."""

from __future__ import annotations

import logging
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar

import orjson
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from mcp_bridge.amplifier import llm_errors
from mcp_bridge.amplifier.message_models import (
    Block,
    ChatRequest,
    ChatResponse,
    Message,
    TextBlock,
    ToolCall,
    ToolCallBlock,
    ToolResultBlock,
)
from mcp_bridge.amplifier.models import ModelInfo, ProviderInfo
from mcp_bridge.amplifier.module_import import CORE_PACKAGE
from mcp_bridge.encoding.exact_json import dump_json, load_json

logger = logging.getLogger("mcp_bridge.amplifier")

TextListener = Callable[[str], Awaitable[object]]
"""Receives the text of a response piece by piece."""
INCOMPLETE = "The call did not complete."
"""What a model reads as the result of a call that has none."""
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
    """

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)

    api_key: SecretStr | None = None
    base_url: str | None = None
    default_model: str
    max_tokens: int = Field(default=16_000, gt=0)
    context_window: int = Field(default=200_000, gt=0)
    timeout: float = Field(default=600.0, gt=0)
    max_retries: int = Field(default=4, ge=0)


def find_key(config: ProviderConfig, variable: str) -> str | None:
    """Return the API key, or None with a line in the log: a provider without a key is not mounted."""
    key = config.api_key.get_secret_value() if config.api_key is not None else os.environ.get(variable, "")
    if not key.strip():
        logger.warning("the provider is not mounted: set %s, or `api_key` in its configuration", variable)
        return None
    return key.strip()


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

    @abstractmethod
    async def complete(
        self, request: ChatRequest, *, on_text: TextListener | None = None, **kwargs: Any
    ) -> ChatResponse:
        """Return the model's response; `on_text` receives its text as it arrives. Raises LLMError."""

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        return parse_tool_calls(response)

    async def close(self) -> None:
        await self._client.close()

    def limit_tokens(self, request: ChatRequest) -> int:
        """Return the most tokens of the response."""
        most: int = self._config.max_tokens
        return min(request.max_output_tokens or most, most)


async def mount_provider(coordinator: Any, provider: Any) -> None:
    """Mount a provider. On amplifier-core, `get_info` returns that package's model, which its validators require."""
    core = sys.modules.get(CORE_PACKAGE)
    if core is not None and isinstance(coordinator, core.ModuleCoordinator):
        provider.info_model = core.models.ProviderInfo
    await coordinator.mount("providers", provider, name=provider.name)


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


def pair_results(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with one result directly after each tool call, as the APIs require it.

    A result without its call is left out, and a call without its result gets one that says so. Messages between a call
    and its result follow after the result.
    """
    results = {block.tool_call_id: block for message in messages for block in list_results(message)}
    paired: list[Message] = []
    for message in messages:
        if message.role in ("tool", "function"):
            continue
        others = list_results(message)
        if others and isinstance(message.content, list):
            rest = [block for block in message.content if not isinstance(block, ToolResultBlock)]
            if not rest:
                continue
            message = message.model_copy(update={"content": rest})  # noqa: PLW2901 - a message without its results
        paired.append(message)
        paired += [
            Message(
                role="tool",
                tool_call_id=call.id,
                content=[results.get(call.id) or ToolResultBlock(tool_call_id=call.id, output=INCOMPLETE)],
            )
            for call in list_calls(message)
        ]
    return paired


def list_calls(message: Message) -> list[ToolCallBlock]:
    """Return the tool calls of a message: content blocks, or the `tool_calls` that loops store beside the text."""
    blocks = message.content if isinstance(message.content, list) else []
    calls = [block for block in blocks if isinstance(block, ToolCallBlock)]
    known = {call.id for call in calls}
    for given in (message.model_extra or {}).get("tool_calls") or ():
        function = given.get("function") or {}
        arguments = given.get("arguments", function.get("arguments"))
        name = str(given.get("name") or given.get("tool") or function.get("name") or "")
        if given.get("id") not in known:
            calls.append(ToolCallBlock(id=given["id"], name=name, input=_read_arguments(arguments)))
    return calls


def _read_arguments(given: Any) -> dict[str, Any]:
    if isinstance(given, str):
        try:
            given = load_json(given)
        except ValueError:
            return {}
    return given if isinstance(given, dict) else {}


def list_results(message: Message) -> list[ToolResultBlock]:
    """Return the tool results of a message: content blocks, or the content of a message with the role `tool`."""
    blocks = message.content if isinstance(message.content, list) else []
    found = [block for block in blocks if isinstance(block, ToolResultBlock)]
    if not found and message.role in ("tool", "function") and message.tool_call_id is not None:
        return [ToolResultBlock(tool_call_id=message.tool_call_id, output=message.content)]
    return found


def render_text(content: Any) -> str:
    """Return content as text: blocks of text joined, anything else as JSON."""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(block, TextBlock) for block in content):
        return "\n".join(block.text for block in content)
    return dump_json(content, default=_to_plain, option=orjson.OPT_NON_STR_KEYS).decode()


def _to_plain(value: Any) -> Any:
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else str(value)
