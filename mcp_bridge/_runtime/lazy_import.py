"""Lazy imports of public names, for packages other than `mcp_bridge` itself."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def make_lazy_getattr(package: str, where: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """Return a `__getattr__` for a package; `where` maps modules to the names in them."""
    homes = {name: module for module, names in where.items() for name in names}

    def find_name(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return find_name
