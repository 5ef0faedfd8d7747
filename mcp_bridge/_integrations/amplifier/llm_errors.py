"""The errors of providers, under the names of `amplifier_core.llm_errors`. Each calls for another reaction."""

from __future__ import annotations

from typing import Any, ClassVar


class LLMError(Exception):
    """A request to a language model failed.

    Attributes:
        provider: The provider's name.
        model: The requested model.
        status_code: The HTTP status of the response, if there was one.
        retryable: Whether the same request may succeed later.
        retry_after: Seconds to wait before a retry, if the provider specifies them.
        delay_multiplier: How many times longer than usual to wait.
    """

    is_retryable: ClassVar[bool] = False
    """Whether errors of this class are retryable by default."""

    def __init__(
        self,
        message: str,
        *,
        provider: str | None = None,
        model: str | None = None,
        status_code: int | None = None,
        retryable: bool | None = None,
        retry_after: float | None = None,
        delay_multiplier: float = 1.0,
    ) -> None:
        super().__init__(message)
        self.provider = provider
        self.model = model
        self.status_code = status_code
        self.retryable = self.is_retryable if retryable is None else retryable
        self.retry_after = retry_after
        self.delay_multiplier = delay_multiplier


class RateLimitError(LLMError):
    """The provider's rate limit is exceeded (HTTP 429)."""

    is_retryable = True


class AuthenticationError(LLMError):
    """The API key is missing or invalid (HTTP 401)."""


class AccessDeniedError(AuthenticationError):
    """The API key may not use this model or endpoint (HTTP 403)."""


class ContextLengthError(LLMError):
    """The request does not fit in the model's window (HTTP 413, or an error code of the provider)."""


class ContentFilterError(LLMError):
    """The provider's safety filter blocked the content."""


class InvalidRequestError(LLMError):
    """The provider rejected the request (HTTP 400 or 422)."""


class ProviderUnavailableError(LLMError):
    """The provider has an internal problem (HTTP 5xx), or cannot be reached."""

    is_retryable = True


class NetworkError(ProviderUnavailableError):
    """The provider cannot be reached."""


class LLMTimeoutError(LLMError):
    """The response of the provider took too long."""

    is_retryable = True


class NotFoundError(LLMError):
    """The model or endpoint does not exist (HTTP 404)."""


class StreamError(LLMError):
    """A response ended early, or is not one of this API."""

    is_retryable = True


class AbortError(LLMError):
    """The caller cancelled the request."""


class InvalidToolCallError(LLMError):
    """The model requested a tool call whose arguments are not a JSON object.

    Attributes:
        tool_name: The tool.
        raw_arguments: What the model wrote.
    """

    def __init__(
        self, message: str, *, tool_name: str | None = None, raw_arguments: str | None = None, **details: Any
    ) -> None:
        super().__init__(message, **details)
        self.tool_name = tool_name
        self.raw_arguments = raw_arguments


class ConfigurationError(LLMError):
    """The provider is not configured correctly."""


class QuotaExceededError(RateLimitError):
    """The account has no credit left; waiting does not help."""

    is_retryable = False
