"""The API that Amplifier modules are written against, without amplifier-core.

`mcp_bridge.amplifier.X` has the names of `amplifier_core.X`. Names are imported on first use.

A tool module mounts objects with the shape of `Tool`. `ModuleLoader` finds it, here in a search path, and mounts it on
a `ModuleCoordinator`:

>>> import anyio
>>> from pathlib import Path
>>> from mcp_bridge.amplifier import ModuleCoordinator, ModuleLoader, Tool
>>> Path("tool_forecast.py").write_text('''
... from mcp_bridge.amplifier import ToolResult
... class Forecast:
...     name, description = "forecast", "The weather of tomorrow"
...     async def execute(self, input):
...         return ToolResult(output="rain")
... async def mount(coordinator, config):
...     await coordinator.mount("tools", Forecast())
... ''')
287
>>> async def run_forecast():
...     coordinator = ModuleCoordinator()
...     await ModuleLoader(coordinator, search_paths=["."]).load("tool-forecast")
...     tool = coordinator.get("tools", "forecast")
...     return isinstance(tool, Tool), (await tool.execute({"city": "Ulm"})).output
>>> anyio.run(run_forecast)
(True, 'rain')

The other kinds of modules have the shapes below. `mcp_bridge.amplifier.testing` has an implementation of each.

>>> from mcp_bridge.amplifier import (
...     ApprovalSystem, ContextManager, HookHandler, Orchestrator, Provider, testing
... )
>>> isinstance(testing.MockProvider(), Provider)
True
>>> isinstance(testing.MockContextManager(), ContextManager)
True
>>> isinstance(testing.ScriptedOrchestrator([]), Orchestrator)
True
>>> isinstance(testing.MockApprovals("Deny"), ApprovalSystem)
True
>>> isinstance(testing.EventRecorder(), HookHandler)
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_bridge._runtime.lazy_import import make_lazy_getattr

# fmt: off
# isort: off
if TYPE_CHECKING:
    from mcp_bridge._integrations.amplifier.cancellation import (
        CancellationState as CancellationState, CancellationToken as CancellationToken,
    )
    from mcp_bridge._integrations.amplifier.coordinator import ModuleCoordinator as ModuleCoordinator
    from mcp_bridge._integrations.amplifier.errors import (
        ApprovalTimeoutError as ApprovalTimeoutError, ModuleLoadError as ModuleLoadError,
        ModuleNotFoundError as ModuleNotFoundError, MountCollision as MountCollision,
    )
    from mcp_bridge._integrations.amplifier.hooks import HookRegistry as HookRegistry
    from mcp_bridge._integrations.amplifier.interfaces import (
        ApprovalProvider as ApprovalProvider, ApprovalRequest as ApprovalRequest,
        ApprovalResponse as ApprovalResponse, ApprovalSystem as ApprovalSystem, ContextManager as ContextManager,
        HookHandler as HookHandler, ModuleSource as ModuleSource, ModuleSourceResolver as ModuleSourceResolver,
        Orchestrator as Orchestrator, Provider as Provider, Tool as Tool,
    )
    from mcp_bridge._integrations.amplifier.loader import (
        AmplifierModuleLoader as AmplifierModuleLoader, ModuleLoader as ModuleLoader,
    )
    from mcp_bridge._integrations.amplifier.message_models import (
        ChatRequest as ChatRequest, ChatResponse as ChatResponse, ImageBlock as ImageBlock, Message as Message,
        ReasoningBlock as ReasoningBlock, RedactedThinkingBlock as RedactedThinkingBlock, TextBlock as TextBlock,
        ThinkingBlock as ThinkingBlock, ToolCall as ToolCall, ToolCallBlock as ToolCallBlock,
        ToolResultBlock as ToolResultBlock, ToolSpec as ToolSpec, Usage as Usage,
    )
    from mcp_bridge._integrations.amplifier.models import (
        ContextInjection as ContextInjection, HookResult as HookResult, ModelInfo as ModelInfo,
        ModuleInfo as ModuleInfo, ProviderInfo as ProviderInfo, ToolResult as ToolResult,
    )
    from mcp_bridge._integrations.amplifier.module_sources import (
        FileSource as FileSource, GitSource as GitSource, PackageSource as PackageSource,
    )

_MODULES = {
    "mcp_bridge._integrations.amplifier.cancellation": ("CancellationState", "CancellationToken"),
    "mcp_bridge._integrations.amplifier.coordinator": ("ModuleCoordinator",),
    "mcp_bridge._integrations.amplifier.errors": (
        "ApprovalTimeoutError", "ModuleLoadError", "ModuleNotFoundError", "MountCollision",
    ),
    "mcp_bridge._integrations.amplifier.hooks": ("HookRegistry",),
    "mcp_bridge._integrations.amplifier.interfaces": (
        "ApprovalProvider", "ApprovalRequest", "ApprovalResponse", "ApprovalSystem", "ContextManager", "HookHandler",
        "ModuleSource", "ModuleSourceResolver", "Orchestrator", "Provider", "Tool",
    ),
    "mcp_bridge._integrations.amplifier.loader": ("AmplifierModuleLoader", "ModuleLoader"),
    "mcp_bridge._integrations.amplifier.message_models": (
        "ChatRequest", "ChatResponse", "ImageBlock", "Message", "ReasoningBlock", "RedactedThinkingBlock",
        "TextBlock", "ThinkingBlock", "ToolCall", "ToolCallBlock", "ToolResultBlock", "ToolSpec", "Usage",
    ),
    "mcp_bridge._integrations.amplifier.models": (
        "ContextInjection", "HookResult", "ModelInfo", "ModuleInfo", "ProviderInfo", "ToolResult",
    ),
    "mcp_bridge._integrations.amplifier.module_sources": ("FileSource", "GitSource", "PackageSource"),
}
# isort: on
# fmt: on

__all__ = sorted(name for names in _MODULES.values() for name in names)  # noqa: PLE0605
__getattr__ = make_lazy_getattr(__name__, _MODULES)


def __dir__() -> list[str]:
    return __all__
