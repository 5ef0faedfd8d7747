"""The names of `amplifier_core.coordinator`."""

from mcp_bridge._integrations.amplifier.coordinator import ModuleCoordinator

__all__ = ["ModuleCoordinator"]
