"""What a client is to start: the command of this installation, and what it is to serve, looked at but not started."""

from __future__ import annotations

import itertools
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mcp_bridge._version import DISTRIBUTION
from mcp_bridge.cli.target import DEFAULTS, SETTINGS, find
from mcp_bridge.clients.client import Entry
from mcp_bridge.contracts.errors import ConfigError

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PASSING = (("uv", "archive-v0"), ("uv", "builds-v0"), (".cache", "uv"))
"""Folders of environments that uvx makes and forgets: two neighbouring parts of their paths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What can be served: its absolute path, a name for it, the variables it needs, and what was not looked at."""

    path: Path
    name: str
    secrets: Sequence[str] = ()
    notes: Sequence[str] = ()


def entry_for(settings: Path | None, name: str | None) -> tuple[Entry, Served]:
    """The entry that starts this installation with what is at a path, under a name or that of the settings.

    Raises ConfigError for what cannot be served, and for a name that clients do not take.
    """
    if name is not None and not _NAME.fullmatch(name):
        hint = "Use letters, digits, - and _, 64 at most: every client takes those."
        raise ConfigError(f"'{name}' cannot be the name of a server", where="--name", hint=hint)
    serves = looked_at(find(settings))
    command, *before = program()
    args = (*before, "serve", str(serves.path))
    return Entry(name=name or serves.name, command=command, args=args, secrets=serves.secrets), serves


def program() -> Sequence[str]:
    """The command of this installation, by its absolute path. Raises ConfigError for one that will not last."""
    if not sys.executable:
        raise ConfigError("this Python does not know its own path", hint="Install the package into an environment.")
    folder = Path(os.path.abspath(sys.executable)).parent
    parts = folder.parts
    if any(pair in _PASSING for pair in itertools.pairwise(parts)):
        hint = f"Install it first: uv tool install {DISTRIBUTION}"
        raise ConfigError(f"this command runs from an environment that uvx will throw away, {folder}", hint=hint)
    for name in ("mcp-bridge", "mcp-bridge.exe"):
        script = folder / name
        if script.is_file() and os.access(script, os.X_OK):
            return (str(script),)
    return (os.path.abspath(sys.executable), "-m", "mcp_bridge")


def looked_at(path: Path) -> Served:
    """The light check of `serve`: settings are read, sources are not started. Raises ConfigError."""
    absolute = Path(os.path.abspath(path))
    if path.suffix.lower() in SETTINGS:
        return _settings(absolute)
    if not os.path.exists(absolute):  # Path's own raises for a name that is too long
        raise ConfigError("no such file or folder", path=str(path), hint="Check the path")
    if path.suffix != ".py" and not absolute.is_dir():
        hint = "Serve a .py file, a folder of them, or settings (.yaml, .yml, .json, .toml)"
        raise ConfigError("nothing here can be served", path=str(path), hint=hint)
    if absolute.is_dir() and all(file.name.startswith("_") for file in absolute.glob("*.py")):
        hint = "Name a .py file, a folder of them, or settings (.yaml, .yml, .json, .toml)."
        raise ConfigError("there is no Python file in this folder", path=str(path), hint=hint)
    return Served(path=absolute, name=_cleaned(absolute.stem if path.suffix == ".py" else absolute.name))


def _settings(path: Path) -> Served:
    from mcp_bridge.settings import parse, read
    from mcp_bridge.settings.environment import variables

    document = read(path)
    secrets = [one.name for one in variables(document) if one.default is None]
    unset = [name for name in secrets if name not in os.environ]
    if not unset:
        parse(document, os.environ)
    told = document.data.get("name")
    own = told if isinstance(told, str) and "${" not in told else ""
    stem = path.parent.name if path.name in DEFAULTS else path.stem
    notes = [f"{', '.join(unset)}: not set here, so the settings were read but not checked"] if unset else []
    return Served(path=path, name=_cleaned(own or stem), secrets=secrets, notes=notes)


def _cleaned(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-")[:64].strip("-") or "mcp-bridge"
