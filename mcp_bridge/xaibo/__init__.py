"""Xaibo's vocabulary, native: what providers of its Tools Protocol are written against, without xaibo.

Where a provider says `xaibo.core.protocols.tools`, `xaibo.core.models.tools` or `xaibo.core.models.llm`,
`mcp_bridge.xaibo` has the same names, and the errors that the protocol's document names. Names are imported when they
are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_bridge.runtime.lazy_import import lazily

if TYPE_CHECKING:
    from mcp_bridge.xaibo.errors import ToolError, ToolExecutionError, ToolNotFoundError, ToolParameterError
    from mcp_bridge.xaibo.llm import (
        LLMFunctionCall,
        LLMFunctionResult,
        LLMMessage,
        LLMMessageContent,
        LLMMessageContentType,
        LLMOptions,
        LLMResponse,
        LLMRole,
        LLMUsage,
    )
    from mcp_bridge.xaibo.models import Tool, ToolParameter, ToolResult
    from mcp_bridge.xaibo.protocols import LLMProtocol, ToolProviderProtocol
    from mcp_bridge.xaibo.testing import MockToolProvider

_WHERE = {
    "mcp_bridge.xaibo.errors": (
        "ToolError",
        "ToolExecutionError",
        "ToolNotFoundError",
        "ToolParameterError",
    ),
    "mcp_bridge.xaibo.llm": (
        "LLMFunctionCall",
        "LLMFunctionResult",
        "LLMMessage",
        "LLMMessageContent",
        "LLMMessageContentType",
        "LLMOptions",
        "LLMResponse",
        "LLMRole",
        "LLMUsage",
    ),
    "mcp_bridge.xaibo.models": (
        "Tool",
        "ToolParameter",
        "ToolResult",
    ),
    "mcp_bridge.xaibo.protocols": (
        "LLMProtocol",
        "ToolProviderProtocol",
    ),
    "mcp_bridge.xaibo.testing": ("MockToolProvider",),
}

__all__ = [
    "LLMFunctionCall",
    "LLMFunctionResult",
    "LLMMessage",
    "LLMMessageContent",
    "LLMMessageContentType",
    "LLMOptions",
    "LLMProtocol",
    "LLMResponse",
    "LLMRole",
    "LLMUsage",
    "MockToolProvider",
    "Tool",
    "ToolError",
    "ToolExecutionError",
    "ToolNotFoundError",
    "ToolParameter",
    "ToolParameterError",
    "ToolProviderProtocol",
    "ToolResult",
]

__getattr__ = lazily(__name__, _WHERE)


def __dir__() -> list[str]:
    return __all__
