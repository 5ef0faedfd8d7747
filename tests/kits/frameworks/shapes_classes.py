"""Classes in modules named like frameworks that are too large to install for tests."""

from __future__ import annotations

from typing import Any


def with_module(module: str, **names: Any) -> type:
    """Make a class of a module, with these attributes."""
    return type(names.pop("name"), names.pop("bases", ()), {"__module__": module, **names})
