"""The settings file: reads it, replaces references to the environment, and checks it, with a line for each problem.

Importing this package imports neither pydantic nor ruamel.yaml. Models are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_bridge.documents.document import Document, read_document
from mcp_bridge.runtime.lazy_import import make_lazy_getattr
from mcp_bridge.settings.environment import expand
from mcp_bridge.settings.load import load, parse, parse_options, parse_policy_options, prepare

if TYPE_CHECKING:
    from mcp_bridge.settings.http_sections import HttpSettings
    from mcp_bridge.settings.model import PolicySettings, Settings, SourceSettings
    from mcp_bridge.settings.schema import build_json_schema
    from mcp_bridge.settings.sections import LimitSettings, SettingsModel, StateSettings
    from mcp_bridge.settings.values import Duration, SessionIdle, SessionLimit, Size, Whole

_MODULES = {
    "mcp_bridge.settings.model": ("PolicySettings", "Settings", "SourceSettings"),
    "mcp_bridge.settings.schema": ("build_json_schema",),
    "mcp_bridge.settings.sections": ("SettingsModel", "LimitSettings", "StateSettings"),
    "mcp_bridge.settings.http_sections": ("HttpSettings",),
    "mcp_bridge.settings.values": ("Duration", "SessionIdle", "SessionLimit", "Size", "Whole"),
}

__all__ = [
    "Document", "Duration", "HttpSettings", "LimitSettings", "PolicySettings", "SessionIdle", "SessionLimit",
    "Settings", "SettingsModel", "Size", "SourceSettings", "StateSettings", "Whole", "build_json_schema", "expand",
    "load", "parse", "parse_options", "parse_policy_options", "prepare", "read_document",
]  # fmt: skip

__getattr__ = make_lazy_getattr(__name__, _MODULES)
