"""The names of `amplifier_core.hooks`."""

from mcp_bridge._integrations.amplifier.hooks import HookRegistry
from mcp_bridge._integrations.amplifier.models import HookResult

__all__ = ["HookRegistry", "HookResult"]
