"""The tables of extension points: what stands behind a name in the settings, loaded when it is named."""

from __future__ import annotations

import importlib
from typing import Any

from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.contracts.store import Store

SOURCES: dict[str, str] = {
    "python": "mcp_bridge.sources.python.options:PythonOptions",
}
"""Source types by name. Each is a pydantic model of the source's options with a `build` method."""

STORES: dict[str, str] = {
    "memory": "mcp_bridge.stores.memory:MemoryStore",
}
"""Stores by name. Each is a class, or a function, that makes one when it is called without arguments."""


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


def make_store(name: str) -> Store:
    """A new store of a kind: one of ours, or a stranger's `module:attribute`. Raises ConfigError."""
    if ":" not in name and name not in STORES:
        known = ", ".join(sorted(STORES))
        raise ConfigError(
            f"unknown store '{name}'", where="state.store", hint=f"Known stores: {known}, or your own as module:Name"
        )
    factory = load(STORES.get(name, name))
    try:
        made = factory()
    except Exception as error:  # a stranger's: whatever it raises, there is nothing to keep state in
        raise ConfigError(f"store '{name}' cannot be made: {error}", where="state.store") from error
    if not isinstance(made, Store):
        hint = "A store has the methods get, set, add and delete"
        raise ConfigError(f"'{name}' makes no store but {type(made).__name__}", where="state.store", hint=hint)
    return made
