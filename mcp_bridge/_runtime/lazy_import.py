"""Imports public names of a package when they are first used, for packages other than `mcp_bridge` itself."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def make_lazy_getattr(package: str, modules: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """Return a `__getattr__` for a package (PEP 562). `modules` maps modules to their names."""
    modules_by_name: dict[str, str] = {}
    for module, names in modules.items():
        modules_by_name |= dict.fromkeys(names, module)

    def find_name(name: str) -> Any:
        if name not in modules_by_name:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(modules_by_name[name]), name)
        # Later uses find the name in the package itself.
        setattr(sys.modules[package], name, value)
        return value

    return find_name
