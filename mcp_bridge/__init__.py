"""Give the tools you already have to any MCP client.

`@tool` turns a function into a tool, `ToolRegistry` holds tools, `serve` and `asgi_app` serve them. Rarer names are in
`mcp_bridge.content`, `errors`, `middleware`, `policies`, `questions`, `serving`, `sources` and `tasks`, the complete
tool_use API in `mcp_bridge.tool_use`, and an in-memory client for tests in `mcp_bridge.testing`.

Names are imported when they are first used, so importing this package is cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp_bridge._app.opening import open_bridge
    from mcp_bridge._app.serve import asgi_app, serve
    from mcp_bridge._contracts.content import Audio, EmbeddedResource, Image, Message, ResourceLink, Text
    from mcp_bridge._contracts.context import CallContext
    from mcp_bridge._contracts.errors import BridgeError, ToolError
    from mcp_bridge._contracts.parameters import Depends, Header
    from mcp_bridge._contracts.policy import Middleware
    from mcp_bridge._contracts.question import Answer, Form
    from mcp_bridge._contracts.tool import ToolCall, ToolDefinition, ToolEntry, ToolResult
    from mcp_bridge._engine.authoring import prompt, resource, tool
    from mcp_bridge._engine.registry import ToolRegistry
    from mcp_bridge._version import __version__
    from mcp_bridge.tool_use import ChainStep, ToolChain

_EXPORTS = {
    "mcp_bridge._version": "__version__",
    "mcp_bridge._engine.authoring": "prompt resource tool",
    "mcp_bridge._contracts.content": "Audio EmbeddedResource Image Message ResourceLink Text",
    "mcp_bridge._contracts.context": "CallContext",
    "mcp_bridge._contracts.errors": "BridgeError ToolError",
    "mcp_bridge._contracts.policy": "Middleware",
    "mcp_bridge._contracts.parameters": "Depends Header",
    "mcp_bridge._contracts.question": "Answer Form",
    "mcp_bridge._contracts.tool": "ToolCall ToolDefinition ToolEntry ToolResult",
    "mcp_bridge._engine.registry": "ToolRegistry",
    "mcp_bridge._app.opening": "open_bridge",
    "mcp_bridge._app.serve": "asgi_app serve",
    "mcp_bridge.tool_use": "ChainStep ToolChain",
}

__all__ = [
    "Answer", "Audio", "BridgeError", "CallContext", "ChainStep", "Depends", "EmbeddedResource", "Form", "Header",
    "Image", "Message", "Middleware", "ResourceLink", "Text", "ToolCall", "ToolChain", "ToolDefinition", "ToolEntry",
    "ToolError", "ToolRegistry", "ToolResult", "__version__", "asgi_app", "open_bridge", "prompt", "resource", "serve",
    "tool",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    for module, names in _EXPORTS.items():
        if name in names.split():
            value = getattr(importlib.import_module(module), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
