"""The API that Amplifier modules are written against, without amplifier-core.

`mcp_bridge.amplifier.X` has the names of `amplifier_core.X`. Names are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_bridge.runtime.lazy_import import make_lazy_getattr

if TYPE_CHECKING:
    from mcp_bridge.amplifier.cancellation import CancellationState as CancellationState
    from mcp_bridge.amplifier.cancellation import CancellationToken as CancellationToken
    from mcp_bridge.amplifier.coordinator import ModuleCoordinator as ModuleCoordinator
    from mcp_bridge.amplifier.errors import ApprovalTimeoutError as ApprovalTimeoutError
    from mcp_bridge.amplifier.errors import ModuleLoadError as ModuleLoadError
    from mcp_bridge.amplifier.errors import ModuleNotFoundError as ModuleNotFoundError
    from mcp_bridge.amplifier.errors import MountCollision as MountCollision
    from mcp_bridge.amplifier.hooks import HookRegistry as HookRegistry
    from mcp_bridge.amplifier.interfaces import ApprovalProvider as ApprovalProvider
    from mcp_bridge.amplifier.interfaces import ApprovalRequest as ApprovalRequest
    from mcp_bridge.amplifier.interfaces import ApprovalResponse as ApprovalResponse
    from mcp_bridge.amplifier.interfaces import ApprovalSystem as ApprovalSystem
    from mcp_bridge.amplifier.interfaces import ContextManager as ContextManager
    from mcp_bridge.amplifier.interfaces import HookHandler as HookHandler
    from mcp_bridge.amplifier.interfaces import ModuleSource as ModuleSource
    from mcp_bridge.amplifier.interfaces import ModuleSourceResolver as ModuleSourceResolver
    from mcp_bridge.amplifier.interfaces import Orchestrator as Orchestrator
    from mcp_bridge.amplifier.interfaces import Provider as Provider
    from mcp_bridge.amplifier.interfaces import Tool as Tool
    from mcp_bridge.amplifier.loader import AmplifierModuleLoader as AmplifierModuleLoader
    from mcp_bridge.amplifier.loader import ModuleLoader as ModuleLoader
    from mcp_bridge.amplifier.message_models import ChatRequest as ChatRequest
    from mcp_bridge.amplifier.message_models import ChatResponse as ChatResponse
    from mcp_bridge.amplifier.message_models import ImageBlock as ImageBlock
    from mcp_bridge.amplifier.message_models import Message as Message
    from mcp_bridge.amplifier.message_models import ReasoningBlock as ReasoningBlock
    from mcp_bridge.amplifier.message_models import RedactedThinkingBlock as RedactedThinkingBlock
    from mcp_bridge.amplifier.message_models import TextBlock as TextBlock
    from mcp_bridge.amplifier.message_models import ThinkingBlock as ThinkingBlock
    from mcp_bridge.amplifier.message_models import ToolCall as ToolCall
    from mcp_bridge.amplifier.message_models import ToolCallBlock as ToolCallBlock
    from mcp_bridge.amplifier.message_models import ToolResultBlock as ToolResultBlock
    from mcp_bridge.amplifier.message_models import ToolSpec as ToolSpec
    from mcp_bridge.amplifier.message_models import Usage as Usage
    from mcp_bridge.amplifier.models import ContextInjection as ContextInjection
    from mcp_bridge.amplifier.models import HookResult as HookResult
    from mcp_bridge.amplifier.models import ModelInfo as ModelInfo
    from mcp_bridge.amplifier.models import ModuleInfo as ModuleInfo
    from mcp_bridge.amplifier.models import ProviderInfo as ProviderInfo
    from mcp_bridge.amplifier.models import ToolResult as ToolResult
    from mcp_bridge.amplifier.module_sources import FileSource as FileSource
    from mcp_bridge.amplifier.module_sources import GitSource as GitSource
    from mcp_bridge.amplifier.module_sources import PackageSource as PackageSource

_WHERE = {
    "mcp_bridge.amplifier.cancellation": ("CancellationState", "CancellationToken"),
    "mcp_bridge.amplifier.coordinator": ("ModuleCoordinator",),
    "mcp_bridge.amplifier.errors": ("ApprovalTimeoutError", "ModuleLoadError", "ModuleNotFoundError", "MountCollision"),
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
    "mcp_bridge.amplifier.loader": ("AmplifierModuleLoader", "ModuleLoader"),
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
    "mcp_bridge.amplifier.module_sources": ("FileSource", "GitSource", "PackageSource"),
}

__all__ = sorted(name for names in _WHERE.values() for name in names)  # noqa: PLE0605
__getattr__ = make_lazy_getattr(__name__, _WHERE)


def __dir__() -> list[str]:
    return __all__
