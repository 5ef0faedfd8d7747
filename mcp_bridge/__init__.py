"""Give the tools you already have to any MCP client.

`@tool` makes a tool of a function, `ToolRegistry` holds tools, `serve` and `asgi_app` serve them. The tool_use
API is whole in `mcp_bridge.tool_use`, an in-memory client for tests in `mcp_bridge.testing`. Names are imported
when they are first used, so importing this package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp_bridge._version import __version__
    from mcp_bridge.contracts.content import Audio, Content, EmbeddedResource, Image, ResourceLink, Text
    from mcp_bridge.contracts.context import CallContext
    from mcp_bridge.contracts.errors import BridgeError, CallError, ConfigError, DuplicateTool, ToolError
    from mcp_bridge.contracts.extension import Middleware, Stage, ToolSource
    from mcp_bridge.contracts.tool import Offer, ToolCall, ToolDefinition, ToolEntry, ToolResult
    from mcp_bridge.pipeline import Pipeline
    from mcp_bridge.registry import ToolRegistry
    from mcp_bridge.serving import asgi_app, serve
    from mcp_bridge.tool_use import ChainStep, ToolChain, tool

_WHERE = {
    "mcp_bridge._version": ("__version__",),
    "mcp_bridge.contracts.content": ("Audio", "Content", "EmbeddedResource", "Image", "ResourceLink", "Text"),
    "mcp_bridge.contracts.context": ("CallContext",),
    "mcp_bridge.contracts.errors": ("BridgeError", "CallError", "ConfigError", "DuplicateTool", "ToolError"),
    "mcp_bridge.contracts.extension": ("Middleware", "Stage", "ToolSource"),
    "mcp_bridge.contracts.tool": ("Offer", "ToolCall", "ToolDefinition", "ToolEntry", "ToolResult"),
    "mcp_bridge.pipeline": ("Pipeline",),
    "mcp_bridge.registry": ("ToolRegistry",),
    "mcp_bridge.serving": ("asgi_app", "serve"),
    "mcp_bridge.tool_use": ("ChainStep", "ToolChain", "tool"),
}

__all__ = [
    "Audio",
    "BridgeError",
    "CallContext",
    "CallError",
    "ChainStep",
    "ConfigError",
    "Content",
    "DuplicateTool",
    "EmbeddedResource",
    "Image",
    "Middleware",
    "Offer",
    "Pipeline",
    "ResourceLink",
    "Stage",
    "Text",
    "ToolCall",
    "ToolChain",
    "ToolDefinition",
    "ToolEntry",
    "ToolError",
    "ToolRegistry",
    "ToolResult",
    "ToolSource",
    "__version__",
    "asgi_app",
    "serve",
    "tool",
]


def __getattr__(name: str) -> Any:
    for module, names in _WHERE.items():
        if name in names:
            value = getattr(importlib.import_module(module), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
