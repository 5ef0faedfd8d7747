"""Where a client's files are on a machine, and whether the client is there at all."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from mcp_bridge.clients.client import Client, Machine, Place, Scope, System
from mcp_bridge.contracts.errors import ConfigError

_VARIABLE = re.compile(r"\{(?P<name>[A-Z_]+):-(?P<default>[^}]*)\}")


def here() -> Machine:
    """The machine that this process is on, and where it stands. Raises ConfigError without a home."""
    try:
        home = Path.home()
    except RuntimeError:
        raise ConfigError("this user has no home folder", hint="Set HOME.") from None
    if not home.is_absolute() or (os.name == "posix" and os.environ.get("HOME") == ""):
        hint = "Set HOME to the full path of your home folder."
        raise ConfigError("not the full path of a folder", where="HOME", hint=hint)
    try:
        folder = Path.cwd()
    except OSError:
        raise ConfigError("the current folder does not exist any more", hint="Go to another one.") from None
    return Machine(system=_system(), home=home, environ=dict(os.environ), folder=folder)


def _system() -> System:
    if sys.platform == "darwin":
        return "darwin"
    return "win32" if sys.platform == "win32" else "linux"


def place_of(client: Client, scope: str | None) -> Place:
    """The place of a scope, or the first. Raises ConfigError that names the scopes which the client has."""
    if scope is None:
        return client.places[0]
    for place in client.places:
        if place.scope == scope:
            return place
    scopes = ", ".join(scopes_of(client))
    raise ConfigError(f"{client.title} has no scope '{scope}'", where="--scope", hint=f"It has: {scopes}.")


def scopes_of(client: Client) -> Sequence[Scope]:
    """The scopes that a client has, the one that is meant without one first."""
    return tuple(place.scope for place in client.places)


def path_of(place: Place, machine: Machine) -> Path:
    """Where a place's file is, or would be made."""
    expanded = [(path, _expanded(path, machine)) for path in place.paths[machine.system]]
    for path, found in expanded:
        if "*" in path:
            package = _starred(found)
            if package is not None:
                return package
        elif os.path.lexists(found):
            return Path(found)
    return next(Path(found) for path, found in expanded if "*" not in path)


def found(client: Client, machine: Machine) -> bool:
    """Whether a client is on this machine: its program, a trace of it, or a file of the person's."""
    paths = [_expanded(path, machine) for path in client.traces.get(machine.system, ())]
    if any(_starred(path) is not None if "*" in path else os.path.lexists(path) for path in paths):
        return True
    if any(program_of(program, machine) for program in client.programs):
        return True
    return any(os.path.isfile(path_of(place, machine)) for place in client.places if place.scope == "user")


def program_of(name: str, machine: Machine) -> str | None:
    """The path of a program, if it is on the person's PATH."""
    return shutil.which(name, path=machine.environ.get("PATH", ""))


def within(place: Place, machine: Machine) -> Sequence[str]:
    """The keys that lead to a place's servers."""
    return tuple(key.replace("{folder}", str(project(machine))) for key in place.within)


def project(machine: Machine) -> Path:
    """The project that the person stands in: the folder of its repository, or the folder itself."""
    for folder in (machine.folder, *machine.folder.parents):
        if os.path.exists(folder / ".git"):
            return folder
    return machine.folder


def _expanded(path: str, machine: Machine) -> str:
    """The path with its variables, the home and the project in it."""

    def value(match: re.Match[str]) -> str:
        return machine.environ.get(match["name"]) or match["default"]

    path = _VARIABLE.sub(value, path)
    if path == "~" or path.startswith(("~/", "~\\")):
        return str(machine.home / path[2:])
    return str(machine.folder / path)


def _starred(path: str) -> Path | None:
    """The path with the first folder that its `*` stands in, if there is one."""
    parts = Path(path).parts
    star = next(index for index, part in enumerate(parts) if "*" in part)
    folders = sorted(found for found in Path(*parts[:star]).glob(parts[star]) if os.path.isdir(found))
    return folders[0].joinpath(*parts[star + 1 :]) if folders else None
