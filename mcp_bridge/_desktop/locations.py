"""Finds a client's files on a machine, and whether the client is installed."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._desktop.client import Client, ConfigPlace, Machine
from mcp_bridge._runtime.platform import system

_VARIABLE = re.compile(r"\{(?P<name>[A-Z_]+):-(?P<default>[^}]*)\}")


def detect_machine() -> Machine:
    """Return this machine and the current folder. Raises ConfigError if the user has no home folder."""
    try:
        home = Path.home()
    except RuntimeError:
        raise ConfigError("this user has no home folder", hint=f"Set {system.HOME_VARIABLE}.") from None
    variable = system.HOME_VARIABLE
    if not home.is_absolute() or os.environ.get(variable) == "":
        hint = f"Set {variable} to the absolute path of your home folder."
        raise ConfigError("not an absolute path", where=variable, hint=hint)
    try:
        folder = Path.cwd()
    except OSError:
        raise ConfigError("the current folder no longer exists", hint="Change to another one.") from None
    return Machine(system=system.NAME, home=home, environ=dict(os.environ), folder=folder)


def find_place(client: Client, scope: str | None) -> ConfigPlace:
    """Return the place of a scope; without a scope, the first one. Raises ConfigError for an unknown scope."""
    if scope is None:
        return client.places[0]
    for place in client.places:
        if place.scope == scope:
            return place
    scopes = ", ".join(place.scope for place in client.places)
    raise ConfigError(f"{client.title} has no scope '{scope}'", where="--scope", hint=f"It has: {scopes}.")


def resolve_place_path(place: ConfigPlace, machine: Machine) -> Path:
    """Return the path of a place's file, or the path at which it would be created."""
    candidates = [(path, _expand(path, machine)) for path in place.paths[machine.system]]
    for path, candidate in candidates:
        if "*" in path:
            package = _match_star(candidate)
            if package is not None:
                return package
        elif os.path.lexists(candidate):
            return Path(candidate)
    return next(Path(candidate) for path, candidate in candidates if "*" not in path)


def is_client_installed(client: Client, machine: Machine) -> bool:
    """Return whether a client is on this machine: its program, a trace of it, or a file of its user scope.

    A client without traces for this system cannot be on it.
    """
    if machine.system not in client.install_traces:
        return False
    for path in client.install_traces[machine.system]:
        expanded_path = _expand(path, machine)
        if "*" in path:
            exists = _match_star(expanded_path) is not None
        else:
            exists = os.path.lexists(expanded_path)
        if exists:
            return True
    if any(find_program(program, machine) for program in client.programs):
        return True
    return any(os.path.isfile(resolve_place_path(place, machine)) for place in client.places if place.scope == "user")


def find_program(name: str, machine: Machine) -> str | None:
    return system.locate_program(name, machine.environ.get("PATH", ""))


def resolve_server_keys(place: ConfigPlace, machine: Machine) -> Sequence[str]:
    return tuple(key.replace("{folder}", str(find_project_folder(machine))) for key in place.within)


def find_project_folder(machine: Machine) -> Path:
    """Return the project of the current folder: the root of its repository, or the folder itself."""
    for folder in (machine.folder, *machine.folder.parents):
        if os.path.exists(folder / ".git"):
            return folder
    return machine.folder


def _expand(path: str, machine: Machine) -> str:
    """Return the absolute path for one of `ConfigPlace.paths`. A `*` in it stays."""
    path = _VARIABLE.sub(lambda match: machine.environ.get(match["name"]) or match["default"], path)
    if path == "~" or path.startswith(("~/", "~\\")):
        return str(machine.home / path[2:])
    return str(machine.folder / path)


def _match_star(path: str) -> Path | None:
    """Return the path in the first folder that matches the segment with `*`, or None if there is no such folder."""
    parts = Path(path).parts
    star = next(index for index, segment in enumerate(parts) if "*" in segment)
    folders = sorted(folder for folder in Path(*parts[:star]).glob(parts[star]) if os.path.isdir(folder))
    return folders[0].joinpath(*parts[star + 1 :]) if folders else None
