"""Decorators for tools, resources and prompts. Each is imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_bridge._runtime.lazy_import import make_lazy_getattr

if TYPE_CHECKING:
    from mcp_bridge._engine.authoring.prompts import prompt
    from mcp_bridge._engine.authoring.resources import resource
    from mcp_bridge._engine.authoring.tools import tool

_MODULES = {f"{__name__}.{name}s": (name,) for name in ("prompt", "resource", "tool")}

__all__ = ["prompt", "resource", "tool"]

__getattr__ = make_lazy_getattr(__name__, _MODULES)
