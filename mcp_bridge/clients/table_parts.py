"""The parts that rows of the table share: where a person's files are, dialects, and variables that are handed on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mcp_bridge.clients.client import Dialect, System

SAFE = (
    *("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"),
    *("APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PROCESSOR_ARCHITECTURE", "PROGRAMFILES"),
    *("SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE"),
)
"""What clients hand on that use the TypeScript SDK's transport as it is: its list for POSIX and that for Windows."""

NAME = r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
DEFAULT = r"(?::-(?P<default>[^}]*))?"
SHELL = Dialect(write="${{name}}", read=rf"\$\{{{NAME}{DEFAULT}\}}")
"""`${NAME}` and `${NAME:-default}`."""
BARE = Dialect(write="${{name}}", read=rf"\$\{{?{NAME}(?:{DEFAULT}\}})?")
"""`$NAME` too."""
OF_EDITORS = Dialect(write="${env:{name}}", read=rf"\$\{{env:{NAME}\}}", unset="empty")
"""`${env:NAME}`, as in the variables of VS Code."""

ROAMING = "{APPDATA:-~/AppData/Roaming}"
CONFIG = "{XDG_CONFIG_HOME:-~/.config}"
SUPPORT = "~/Library/Application Support"


def everywhere(*paths: str) -> Mapping[System, Sequence[str]]:
    """The same paths on every system."""
    return {"darwin": paths, "linux": paths, "win32": paths}


def of_app(path: str) -> Mapping[System, Sequence[str]]:
    """A path below the folder that each system has for the settings of desktop programs."""
    return {"darwin": (f"{SUPPORT}/{path}",), "linux": (f"{CONFIG}/{path}",), "win32": (f"{ROAMING}/{path}",)}
