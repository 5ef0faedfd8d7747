"""The names of `amplifier_core.interfaces`."""

from mcp_bridge._integrations.amplifier.interfaces import (
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

__all__ = [
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
]
