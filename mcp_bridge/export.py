"""Exports registered tools to language models: tools in their formats, their calls, and results in their formats.

`Export` is the entry point. Names are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_bridge._runtime.lazy_import import make_lazy_getattr

if TYPE_CHECKING:
    from mcp_bridge._integrations.export.calls import ModelCall
    from mcp_bridge._integrations.export.exporting import Export
    from mcp_bridge._integrations.export.formats import FORMATS
    from mcp_bridge._integrations.export.tools import Problem

_MODULES = {
    "mcp_bridge._integrations.export.calls": ("ModelCall",),
    "mcp_bridge._integrations.export.exporting": ("Export",),
    "mcp_bridge._integrations.export.formats": ("FORMATS",),
    "mcp_bridge._integrations.export.tools": ("Problem",),
}

__all__ = ["FORMATS", "Export", "ModelCall", "Problem"]

__getattr__ = make_lazy_getattr(__name__, _MODULES)


def __dir__() -> list[str]:
    return __all__
