"""The names of `amplifier_core.loader`."""

from mcp_bridge._integrations.amplifier.loader import AmplifierModuleLoader, ModuleLoader

__all__ = ["AmplifierModuleLoader", "ModuleLoader"]
