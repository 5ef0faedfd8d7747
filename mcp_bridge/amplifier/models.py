"""The names of `amplifier_core.models`."""

from mcp_bridge._integrations.amplifier.models import (
    ContextInjection,
    HookResult,
    ModelInfo,
    ModuleInfo,
    ProviderInfo,
    ToolResult,
)

__all__ = ["ContextInjection", "HookResult", "ModelInfo", "ModuleInfo", "ProviderInfo", "ToolResult"]
