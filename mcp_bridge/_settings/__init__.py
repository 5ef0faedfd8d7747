"""The settings file: reads it, replaces references to the environment, and checks it, with a line for each problem.

Importing this package imports neither pydantic nor ruamel.yaml. Models are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_bridge._runtime.lazy_import import make_lazy_getattr
from mcp_bridge._settings.documents.document import Document, read_document
from mcp_bridge._settings.environment import expand
from mcp_bridge._settings.load import load, parse, parse_options, parse_policy_options, prepare

if TYPE_CHECKING:
    from mcp_bridge._settings.model import PolicySettings, Settings, SourceSettings
    from mcp_bridge._settings.schema import build_json_schema
    from mcp_bridge._settings.sections import HttpSettings, LimitSettings, OptionalSandbox, SettingsModel, StateSettings
    from mcp_bridge._settings.values import Duration, SessionLimit, Size, Whole

_MODULES = {
    "mcp_bridge._settings.model": ("PolicySettings", "Settings", "SourceSettings"),
    "mcp_bridge._settings.schema": ("build_json_schema",),
    "mcp_bridge._settings.sections": (
        "SettingsModel",
        "HttpSettings",
        "LimitSettings",
        "OptionalSandbox",
        "StateSettings",
    ),
    "mcp_bridge._settings.values": ("Duration", "SessionLimit", "Size", "Whole"),
}  # fmt: skip

__all__ = [
    "Document", "Duration", "HttpSettings", "LimitSettings", "OptionalSandbox", "PolicySettings", "SessionLimit",
    "Settings", "SettingsModel", "Size", "SourceSettings", "StateSettings", "Whole", "build_json_schema", "expand",
    "load", "parse", "parse_options", "parse_policy_options", "prepare", "read_document",
]  # fmt: skip

__getattr__ = make_lazy_getattr(__name__, _MODULES)
