"""The settings file: read, expanded, checked, with the line of everything that is wrong.

Importing this room imports neither pydantic nor ruamel.yaml; the models are imported when they are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_bridge.settings.document import Document, read
from mcp_bridge.settings.environment import expand
from mcp_bridge.settings.load import load, options, parse
from mcp_bridge.settings.schema import json_schema

if TYPE_CHECKING:
    from mcp_bridge.settings.model import (
        Duration,
        Frame,
        HttpSettings,
        LimitSettings,
        Settings,
        Size,
        SourceSettings,
        StateSettings,
    )

_MODELS = (
    "Duration",
    "Frame",
    "HttpSettings",
    "LimitSettings",
    "Settings",
    "Size",
    "SourceSettings",
    "StateSettings",
)

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
    "expand",
    "json_schema",
    "load",
    "options",
    "parse",
    "read",
]


def __getattr__(name: str) -> Any:
    if name not in _MODELS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mcp_bridge.settings import model

    return getattr(model, name)
