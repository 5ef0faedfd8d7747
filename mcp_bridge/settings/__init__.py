"""The settings file: read, expanded, checked, with the line of everything that is wrong.

Importing this room imports neither pydantic nor ruamel.yaml; the models are imported when they are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_bridge.documents.document import Document, read
from mcp_bridge.runtime.lazy_import import lazily
from mcp_bridge.settings.environment import expand
from mcp_bridge.settings.load import load, options, parse
from mcp_bridge.settings.schema import json_schema

if TYPE_CHECKING:
    from mcp_bridge.settings.model import Settings, SourceSettings
    from mcp_bridge.settings.sections import Frame, HttpSettings, LimitSettings, StateSettings
    from mcp_bridge.settings.values import Duration, Size, Whole

_LATE = {
    "mcp_bridge.settings.model": ("Settings", "SourceSettings"),
    "mcp_bridge.settings.sections": ("Frame", "HttpSettings", "LimitSettings", "StateSettings"),
    "mcp_bridge.settings.values": ("Duration", "Size", "Whole"),
}

__all__ = [
    "Document",
    "Duration",
    "Frame",
    "HttpSettings",
    "LimitSettings",
    "Settings",
    "Size",
    "SourceSettings",
    "StateSettings",
    "Whole",
    "expand",
    "json_schema",
    "load",
    "options",
    "parse",
    "read",
]


__getattr__ = lazily(__name__, _LATE)
