"""Amplifier's vocabulary, native: what modules of its contracts are written against, without amplifier-core.

Where a module says `amplifier_core.X`, `mcp_bridge.amplifier.X` has the same names. Names are imported when they are
first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_bridge.runtime.lazy_import import lazily

if TYPE_CHECKING:
    from mcp_bridge.amplifier.cancellation import CancellationState, CancellationToken
    from mcp_bridge.amplifier.coordinator import ModuleCoordinator
    from mcp_bridge.amplifier.errors import ApprovalTimeoutError, ModuleLoadError, ModuleNotFoundError, MountCollision
    from mcp_bridge.amplifier.hooks import HookRegistry
    from mcp_bridge.amplifier.interfaces import (
        ApprovalProvider,
        ApprovalRequest,
        ApprovalResponse,
        ApprovalSystem,
        ContextManager,
        HookHandler,
        ModuleSource,
        ModuleSourceResolver,
        Orchestrator,
        Provider,
        Tool,
    )
    from mcp_bridge.amplifier.loader import AmplifierModuleLoader, ModuleLoader
    from mcp_bridge.amplifier.message_models import (
        ChatRequest,
        ChatResponse,
        ImageBlock,
        Message,
        ReasoningBlock,
        RedactedThinkingBlock,
        TextBlock,
        ThinkingBlock,
        ToolCall,
        ToolCallBlock,
        ToolResultBlock,
        ToolSpec,
        Usage,
    )
    from mcp_bridge.amplifier.models import (
        ContextInjection,
        HookResult,
        ModelInfo,
        ModuleInfo,
        ProviderInfo,
        ToolResult,
    )
    from mcp_bridge.amplifier.module_sources import FileSource, GitSource, PackageSource

_WHERE = {
    "mcp_bridge.amplifier.cancellation": (
        "CancellationState",
        "CancellationToken",
    ),
    "mcp_bridge.amplifier.coordinator": ("ModuleCoordinator",),
    "mcp_bridge.amplifier.errors": (
        "ApprovalTimeoutError",
        "ModuleLoadError",
        "ModuleNotFoundError",
        "MountCollision",
    ),
    "mcp_bridge.amplifier.hooks": ("HookRegistry",),
    "mcp_bridge.amplifier.interfaces": (
        "ApprovalProvider",
        "ApprovalRequest",
        "ApprovalResponse",
        "ApprovalSystem",
        "ContextManager",
        "HookHandler",
        "ModuleSource",
        "ModuleSourceResolver",
        "Orchestrator",
        "Provider",
        "Tool",
    ),
    "mcp_bridge.amplifier.loader": (
        "AmplifierModuleLoader",
        "ModuleLoader",
    ),
    "mcp_bridge.amplifier.message_models": (
        "ChatRequest",
        "ChatResponse",
        "ImageBlock",
        "Message",
        "ReasoningBlock",
        "RedactedThinkingBlock",
        "TextBlock",
        "ThinkingBlock",
        "ToolCall",
        "ToolCallBlock",
        "ToolResultBlock",
        "ToolSpec",
        "Usage",
    ),
    "mcp_bridge.amplifier.models": (
        "ContextInjection",
        "HookResult",
        "ModelInfo",
        "ModuleInfo",
        "ProviderInfo",
        "ToolResult",
    ),
    "mcp_bridge.amplifier.module_sources": (
        "FileSource",
        "GitSource",
        "PackageSource",
    ),
}

__all__ = [
    "AmplifierModuleLoader",
    "ApprovalProvider",
    "ApprovalRequest",
    "ApprovalResponse",
    "ApprovalSystem",
    "ApprovalTimeoutError",
    "CancellationState",
    "CancellationToken",
    "ChatRequest",
    "ChatResponse",
    "ContextInjection",
    "ContextManager",
    "FileSource",
    "GitSource",
    "HookHandler",
    "HookRegistry",
    "HookResult",
    "ImageBlock",
    "Message",
    "ModelInfo",
    "ModuleCoordinator",
    "ModuleInfo",
    "ModuleLoadError",
    "ModuleLoader",
    "ModuleNotFoundError",
    "ModuleSource",
    "ModuleSourceResolver",
    "MountCollision",
    "Orchestrator",
    "PackageSource",
    "Provider",
    "ProviderInfo",
    "ReasoningBlock",
    "RedactedThinkingBlock",
    "TextBlock",
    "ThinkingBlock",
    "Tool",
    "ToolCall",
    "ToolCallBlock",
    "ToolResult",
    "ToolResultBlock",
    "ToolSpec",
    "Usage",
]


__getattr__ = lazily(__name__, _WHERE)


def __dir__() -> list[str]:
    return __all__
