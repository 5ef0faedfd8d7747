"""The servers that stand in a client's files, and which of them are bridges."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath, PureWindowsPath
from typing import Any

from mcp_bridge.clients import writing
from mcp_bridge.clients.client import Client, Installed, Machine, Place
from mcp_bridge.clients.locating import path_of, within
from mcp_bridge.clients.shaping import started
from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.documents import editor

PROGRAM = "mcp-bridge"
MODULE = ("-m", "mcp_bridge")
_WITH_VALUE = frozenset({"--http", "--token-env", "--log-level", "--log-file"})
"""Options of `serve` that are followed by a value."""


def installed(client: Client, machine: Machine) -> Sequence[Installed]:
    """The servers of all files of a client that are there. Raises ConfigError for a file that cannot be read."""
    return tuple(server for place in client.places for server in of_place(client, place, machine))


def bridges(client: Client, machine: Machine) -> Sequence[Installed]:
    """The servers of a client that are bridges. Raises ConfigError for a file that cannot be read."""
    return tuple(server for server in installed(client, machine) if is_bridge(client, server.value))


def of_place(client: Client, place: Place, machine: Machine) -> Sequence[Installed]:
    """The servers of one file; none where there is no file. Raises ConfigError for one that cannot be read."""
    path = path_of(place, machine)
    servers = servers_in(place, content(path), path, machine)
    return tuple(
        Installed(client=client.name, place=place, path=path, name=name, value=value) for name, value in servers.items()
    )


def content(path: Path) -> str:
    """The text of a file; empty where there is none. Raises ConfigError for one that cannot be read."""
    return writing.load(path).content


def servers_in(place: Place, text: str, path: Path, machine: Machine) -> Mapping[str, Mapping[str, Any]]:
    """The servers in a text, by name. Raises ConfigError for a text that is not of the place's format."""
    found = entries_in(place, text, path, machine)
    return {name: value for name, value in found.items() if isinstance(value, Mapping)}


def entries_in(place: Place, text: str, path: Path, machine: Machine) -> Mapping[str, Any]:
    """What stands where servers do, by name, also what can be none. Raises ConfigError as `servers_in` does."""
    try:
        data = editor.read(place.format, text)
    except ConfigError as error:
        raise ConfigError(error.problem, path=str(path), line=error.line, where=error.where, hint=error.hint) from None
    for key in within(place, machine):
        data = data.get(key) if isinstance(data, Mapping) else None
    if place.listed and isinstance(data, Sequence) and not isinstance(data, str):
        named = (item for item in data if isinstance(item, Mapping))
        data = {item["name"]: item for item in named if isinstance(item.get("name"), str)}
    return {str(name): value for name, value in data.items()} if isinstance(data, Mapping) else {}


def is_bridge(client: Client, value: Mapping[str, Any]) -> bool:
    """Whether an entry starts a bridge: the command, the module, or either by way of another command."""
    argv = started(client, value).argv
    if argv and _program(argv[0]) == PROGRAM:
        return True
    pairs = tuple(itertools.pairwise(argv))
    # Not the package `mcp-bridge` by way of uvx, which is somebody else's package.
    return MODULE in pairs or any(_program(word) == PROGRAM and after == "serve" for word, after in pairs)


def served(client: Client, value: Mapping[str, Any]) -> str | None:
    """What the bridge of an entry serves, as it stands there."""
    return settings_of(started(client, value).argv)


def settings_of(argv: Sequence[str]) -> str | None:
    """What a command of ours serves, as it is written there; None where nothing is named."""
    words = iter(argv[argv.index("serve") + 1 :] if "serve" in argv else ())
    for word in words:
        if word in _WITH_VALUE:
            next(words, None)
        elif not word.startswith("-"):
            return word
    return None


def names_bridge(argv: Sequence[str]) -> bool:
    """Whether the first word of a command is the bridge, or a Python that runs it; then its paths are this machine's.

    Another program (`uv run --directory`, `docker run`) may start the bridge elsewhere.
    """
    program = _program(argv[0]) if argv else ""
    return program == PROGRAM or (program.lower().startswith("python") and MODULE in itertools.pairwise(argv))


def _program(word: str) -> str:
    pure = PureWindowsPath(word) if "\\" in word else PurePath(word)
    return pure.stem if pure.suffix.lower() == ".exe" else pure.name
