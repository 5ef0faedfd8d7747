"""What rows of the table share: users' folders, forms of references, and variables that are passed on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mcp_bridge.clients.client import ReferenceSyntax, System

SDK_VARIABLES = (
    *("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"),
    *("APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PROCESSOR_ARCHITECTURE", "PROGRAMFILES"),
    *("SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE"),
)
"""What clients with the TypeScript SDK's own transport pass on: its lists for POSIX and for Windows."""

NAME_PATTERN = r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
DEFAULT_PATTERN = r"(?::-(?P<default>[^}]*))?"
SHELL_REFERENCES = ReferenceSyntax(template="${{name}}", pattern=rf"\$\{{{NAME_PATTERN}{DEFAULT_PATTERN}\}}")
"""`${NAME}` and `${NAME:-default}`."""
BARE_REFERENCES = ReferenceSyntax(template="${{name}}", pattern=rf"\$\{{?{NAME_PATTERN}(?:{DEFAULT_PATTERN}\}})?")
"""`$NAME` as well."""
EDITOR_REFERENCES = ReferenceSyntax(template="${env:{name}}", pattern=rf"\$\{{env:{NAME_PATTERN}\}}", unset="empty")
"""`${env:NAME}`, as in the variables of VS Code."""

ROAMING = "{APPDATA:-~/AppData/Roaming}"
CONFIG = "{XDG_CONFIG_HOME:-~/.config}"
SUPPORT = "~/Library/Application Support"


def make_paths(*paths: str) -> Mapping[System, Sequence[str]]:
    """The same paths on every system."""
    return {"darwin": paths, "linux": paths, "win32": paths}


def make_app_paths(path: str) -> Mapping[System, Sequence[str]]:
    """A path in the folder that each system has for the settings of desktop programs."""
    return {"darwin": (f"{SUPPORT}/{path}",), "linux": (f"{CONFIG}/{path}",), "win32": (f"{ROAMING}/{path}",)}
