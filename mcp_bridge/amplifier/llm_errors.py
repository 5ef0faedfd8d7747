"""The names of `amplifier_core.llm_errors`."""

from mcp_bridge._integrations.amplifier.llm_errors import (
    AbortError,
    AccessDeniedError,
    AuthenticationError,
    ConfigurationError,
    ContentFilterError,
    ContextLengthError,
    InvalidRequestError,
    InvalidToolCallError,
    LLMError,
    LLMTimeoutError,
    NetworkError,
    NotFoundError,
    ProviderUnavailableError,
    QuotaExceededError,
    RateLimitError,
    StreamError,
)

__all__ = [
    "AbortError",
    "AccessDeniedError",
    "AuthenticationError",
    "ConfigurationError",
    "ContentFilterError",
    "ContextLengthError",
    "InvalidRequestError",
    "InvalidToolCallError",
    "LLMError",
    "LLMTimeoutError",
    "NetworkError",
    "NotFoundError",
    "ProviderUnavailableError",
    "QuotaExceededError",
    "RateLimitError",
    "StreamError",
]
