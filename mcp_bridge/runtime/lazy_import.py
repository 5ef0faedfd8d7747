"""Public names of a package that are imported on first use. `mcp_bridge` itself, which imports nothing, has its own."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazily(package: str, where: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """A `__getattr__` for a package: `where` has the names by the module that each is in."""
    homes = {name: module for module, names in where.items() for name in names}

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return find
