"""The one table of extension points: what stands behind a `type:` in the settings, loaded when it is named."""

from __future__ import annotations

import importlib
from typing import Any

from mcp_bridge.contracts.errors import ConfigError

SOURCES: dict[str, str] = {
    "python": "mcp_bridge.sources.python.options:PythonOptions",
}
"""Source types by name. Each is a pydantic model of the source's options with a `build` method."""


def load(reference: str) -> Any:
    """The object that `module:attribute` names. Raises ConfigError saying which half is wrong."""
    module_name, _, attribute = reference.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigError(f"plugin '{reference}': {error}", hint="Install the package, or mend the name") from error
    try:
        return getattr(module, attribute)
    except AttributeError:
        hint = "Write it as package.module:Name"
        raise ConfigError(f"plugin '{reference}': '{module_name}' has no '{attribute}'", hint=hint) from None


def source_type(name: str) -> Any:
    """The options model of a source type: one of ours, or a stranger's `module:attribute`. Raises ConfigError."""
    if ":" in name:
        return load(name)
    if name not in SOURCES:
        known = ", ".join(sorted(SOURCES))
        raise ConfigError(f"unknown source type '{name}'", hint=f"Known types: {known}, or your own as module:Name")
    return load(SOURCES[name])
