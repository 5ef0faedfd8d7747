"""Classes that say which module they are of, for frameworks that are too large to be installed for tests."""

from __future__ import annotations

from typing import Any


def with_module(module: str, **names: Any) -> type:
    """A class of a module; `name` and `bases` are its own, the others are its attributes."""
    return type(names.pop("name"), names.pop("bases", ()), {"__module__": module, **names})
