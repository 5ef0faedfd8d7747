"""Give the tools you already have to any MCP client.

`@tool` turns a function into a tool, `ToolRegistry` holds tools, `serve` and `asgi_app` serve them. The complete
tool_use API is in `mcp_bridge.tool_use`, and an in-memory client for tests in `mcp_bridge.testing`. Names are imported
when they are first used, so importing this package is cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp_bridge._app.opening import open_bridge
    from mcp_bridge._app.serve import asgi_app, serve
    from mcp_bridge._contracts.content import Audio, Content, EmbeddedResource, Image, ResourceLink, Text
    from mcp_bridge._contracts.context import CallContext
    from mcp_bridge._contracts.depends import Depends
    from mcp_bridge._contracts.errors import (
        BridgeError,
        CallError,
        ConfigError,
        DuplicateTool,
        MissingCapability,
        ResourceNotFound,
        ToolError,
    )
    from mcp_bridge._contracts.extension import Middleware, Stage, ToolSource
    from mcp_bridge._contracts.handlers import NeedsInput
    from mcp_bridge._contracts.header import Header
    from mcp_bridge._contracts.message import Message
    from mcp_bridge._contracts.offer import Offer
    from mcp_bridge._contracts.prompt import PromptArgument, PromptEntry
    from mcp_bridge._contracts.question import Answer, Form, Link, Root, Roots, Sampled, Sampling
    from mcp_bridge._contracts.resource import ResourceEntry, ResourceTemplate
    from mcp_bridge._contracts.server_info import ServerInfo
    from mcp_bridge._contracts.state import State
    from mcp_bridge._contracts.store import Store
    from mcp_bridge._contracts.tasks import TaskOptions, ToolTasks
    from mcp_bridge._contracts.tool import ToolCall, ToolDefinition, ToolEntry, ToolResult
    from mcp_bridge._engine.authoring import prompt, resource, tool
    from mcp_bridge._engine.pipeline import Pipeline
    from mcp_bridge._engine.registry import ToolRegistry
    from mcp_bridge._version import __version__
    from mcp_bridge.tool_use import ChainStep, ToolChain

_EXPORTS = {
    "mcp_bridge._version": "__version__",
    "mcp_bridge._engine.authoring": "prompt resource tool",
    "mcp_bridge._contracts.content": "Audio Content EmbeddedResource Image ResourceLink Text",
    "mcp_bridge._contracts.context": "CallContext",
    "mcp_bridge._contracts.depends": "Depends",
    "mcp_bridge._contracts.errors": (
        "BridgeError CallError ConfigError DuplicateTool MissingCapability ResourceNotFound ToolError"
    ),
    "mcp_bridge._contracts.extension": "Middleware Stage ToolSource",
    "mcp_bridge._contracts.handlers": "NeedsInput",
    "mcp_bridge._contracts.header": "Header",
    "mcp_bridge._contracts.offer": "Offer",
    "mcp_bridge._contracts.message": "Message",
    "mcp_bridge._contracts.prompt": "PromptArgument PromptEntry",
    "mcp_bridge._contracts.question": "Answer Form Link Root Roots Sampled Sampling",
    "mcp_bridge._contracts.resource": "ResourceEntry ResourceTemplate",
    "mcp_bridge._contracts.server_info": "ServerInfo",
    "mcp_bridge._contracts.state": "State",
    "mcp_bridge._contracts.store": "Store",
    "mcp_bridge._contracts.tasks": "TaskOptions ToolTasks",
    "mcp_bridge._contracts.tool": "ToolCall ToolDefinition ToolEntry ToolResult",
    "mcp_bridge._engine.pipeline": "Pipeline",
    "mcp_bridge._engine.registry": "ToolRegistry",
    "mcp_bridge._app.opening": "open_bridge",
    "mcp_bridge._app.serve": "asgi_app serve",
    "mcp_bridge.tool_use": "ChainStep ToolChain",
}

__all__ = [
    "Answer", "Audio", "BridgeError", "CallContext", "CallError", "ChainStep", "ConfigError", "Content",
    "Depends", "DuplicateTool", "EmbeddedResource", "Form", "Header", "Image", "Link", "Message", "Middleware",
    "MissingCapability", "NeedsInput", "Offer", "Pipeline", "PromptArgument", "PromptEntry", "ResourceEntry",
    "ResourceLink", "ResourceNotFound", "ResourceTemplate", "Root", "Roots", "Sampled", "Sampling", "ServerInfo",
    "Stage", "State", "Store", "TaskOptions", "Text", "ToolCall", "ToolChain", "ToolDefinition", "ToolEntry",
    "ToolError", "ToolRegistry", "ToolResult", "ToolSource", "ToolTasks", "__version__", "asgi_app", "open_bridge",
    "prompt", "resource", "serve", "tool",
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
