"""The tables of extension points: what stands behind a name in the settings, loaded when it is named."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.contracts.store import Store

SOURCES: dict[str, str] = {
    "amplifier": "mcp_bridge.amplifier.source.options:AmplifierOptions",
    "framework": "mcp_bridge.frameworks.options:FrameworkOptions",
    "python": "mcp_bridge.sources.python.options:PythonOptions",
    "xaibo": "mcp_bridge.xaibo.source.options:XaiboOptions",
}
"""Source types by name. Each is a pydantic model of the source's options with a `build` method."""

STORES: dict[str, str] = {
    "memory": "mcp_bridge.stores.memory:MemoryStore",
    "sqlite": "mcp_bridge.stores.sqlite:SqliteStore",
}
"""Stores by name. Each is a class, or a function, that makes one when it is called without arguments.

Those of `FILES` are called with their file, and have a `check` that raises OSError where it cannot be used.
"""
FILES = frozenset({"sqlite"})


def load(reference: str) -> Any:
    """The object that `module:attribute` names. Raises ConfigError saying which half is wrong."""
    module_name, _, attribute = reference.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigError(f"plugin '{reference}': {error}", hint="Install the package, or mend the name") from error
    except Exception as error:  # a stranger's module, or a name that can be none
        problem = f"plugin '{reference}': {type(error).__name__}: {error}"
        raise ConfigError(problem, hint="Write it as package.module:Name, or mend the module") from error
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


def make_store(name: str, file: Path | None = None, *, where: str = "state.store") -> Store:
    """A new store of a kind: one of ours, or a stranger's `module:attribute`; those in files are in `file`.

    `where` is the setting that names it. Raises ConfigError.
    """
    if ":" not in name and name not in STORES:
        known = ", ".join(sorted(STORES))
        raise ConfigError(
            f"unknown store '{name}'", where=where, hint=f"Known stores: {known}, or your own as module:Name"
        )
    factory = load(STORES.get(name, name))
    try:
        made = _in_file(factory, file) if name in FILES else factory()
    except Exception as error:  # a stranger's: whatever it raises, there is nothing to keep state in
        raise ConfigError(f"store '{name}' cannot be made: {error}", where=where) from error
    if not isinstance(made, Store):
        hint = "A store has the methods get, set, add and delete"
        raise ConfigError(f"'{name}' makes no store but {type(made).__name__}", where=where, hint=hint)
    return made


def _in_file(factory: Any, file: Path | None) -> Any:
    if file is None:
        raise ValueError("it needs a file")
    made = factory(file)
    made.check()
    return made
