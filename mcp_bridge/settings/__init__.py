"""The settings file: reads it, replaces references to the environment, and checks it, with a line for each problem.

Importing this package imports neither pydantic nor ruamel.yaml. Models are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_bridge.documents.document import Document, read
from mcp_bridge.runtime.lazy_import import lazily
from mcp_bridge.settings.environment import expand
from mcp_bridge.settings.load import load, options, parse

if TYPE_CHECKING:
    from mcp_bridge.settings.model import Settings, SourceSettings
    from mcp_bridge.settings.schema import json_schema
    from mcp_bridge.settings.sections import Frame, HttpSettings, LimitSettings, StateSettings
    from mcp_bridge.settings.values import Duration, Size, Whole

_MODULES = {
    "mcp_bridge.settings.model": ("Settings", "SourceSettings"),
    "mcp_bridge.settings.schema": ("json_schema",),
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

__getattr__ = lazily(__name__, _MODULES)
