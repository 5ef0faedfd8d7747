"""UTCP manuals: tools that are called over HTTP or as commands, as a manual says. Manuals are code: they name commands.

`read_manual` reads a file. HTTP is carried out by the packages of UTCP itself, which are imported when they are needed.
"""

from __future__ import annotations

from mcp_bridge.frameworks.shapes import is_a
from mcp_bridge.frameworks.toolbox import Toolbox
from mcp_bridge.frameworks.utcp.calling import ManualTools
from mcp_bridge.frameworks.utcp.manual import Manual, manual_of, read_manual

__all__ = ["fits", "read_manual", "toolbox_of"]


def fits(thing: object) -> bool:
    """Whether this is a manual: one that was read, one of the package utcp, or a mapping that says its version."""
    if type(thing) is dict:
        return "utcp_version" in thing and "tools" in thing
    return type(thing) is Manual or is_a(thing, "utcp", "UtcpManual")


def toolbox_of(thing: object) -> Toolbox:
    """Its tools. Raises SourceError for what is no manual after all."""
    return ManualTools(thing if isinstance(thing, Manual) else manual_of(thing))
