"""The classes of Xaibo's Tools Protocol, for tool providers that should not depend on the package xaibo.

They have the names of `xaibo.core.protocols.tools`, `xaibo.core.models.tools` and `xaibo.core.models.llm`, and the
errors are those of the protocol's document. Names are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_bridge._runtime.lazy_import import make_lazy_getattr

if TYPE_CHECKING:
    from mcp_bridge._integrations.xaibo.models import (
        LLMFunctionCall,
        LLMFunctionResult,
        LLMMessage,
        LLMMessageContent,
        LLMMessageContentType,
        LLMOptions,
        LLMResponse,
        LLMRole,
        LLMUsage,
        Tool,
        ToolParameter,
        ToolResult,
    )
    from mcp_bridge._integrations.xaibo.protocols import (
        LLMProtocol,
        MockToolProvider,
        ToolError,
        ToolExecutionError,
        ToolNotFoundError,
        ToolParameterError,
        ToolProviderProtocol,
    )
    from mcp_bridge._integrations.xaibo.registry_provider import RegistryToolProvider
    from mcp_bridge._integrations.xaibo.source import XaiboSource

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
    "RegistryToolProvider",
    "Tool",
    "ToolError",
    "ToolExecutionError",
    "ToolNotFoundError",
    "ToolParameter",
    "ToolParameterError",
    "ToolProviderProtocol",
    "ToolResult",
    "XaiboSource",
]

_ERRORS = ("ToolError", "ToolExecutionError", "ToolNotFoundError", "ToolParameterError")
_PROTOCOLS = (*_ERRORS, "LLMProtocol", "MockToolProvider", "ToolProviderProtocol")
_MODULES = {
    "mcp_bridge._integrations.xaibo.protocols": _PROTOCOLS,
    "mcp_bridge._integrations.xaibo.models": tuple(
        name for name in __all__ if name not in (*_PROTOCOLS, "RegistryToolProvider", "XaiboSource")
    ),
    "mcp_bridge._integrations.xaibo.registry_provider": ("RegistryToolProvider",),
    "mcp_bridge._integrations.xaibo.source": ("XaiboSource",),
}
__getattr__ = make_lazy_getattr(__name__, _MODULES)


def __dir__() -> list[str]:
    return __all__
