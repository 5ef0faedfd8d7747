"""The names of `amplifier_core.module_sources`."""

from mcp_bridge._integrations.amplifier.errors import ModuleLoadError, ModuleNotFoundError
from mcp_bridge._integrations.amplifier.interfaces import ModuleSource, ModuleSourceResolver
from mcp_bridge._integrations.amplifier.module_sources import FileSource, GitSource, PackageSource

__all__ = [
    "FileSource",
    "GitSource",
    "ModuleLoadError",
    "ModuleNotFoundError",
    "ModuleSource",
    "ModuleSourceResolver",
    "PackageSource",
]
