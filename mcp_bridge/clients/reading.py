"""The servers in a client's files, and which of them are bridges."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath, PureWindowsPath
from typing import Any

from mcp_bridge.clients import writing
from mcp_bridge.clients.client import Client, Installed, Machine, Place
from mcp_bridge.clients.locating import path_of, within
from mcp_bridge.clients.shaping import started
from mcp_bridge.clients.writing import Text
from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.documents import editor
from mcp_bridge.documents.edit import BY_HAND, Changed, Unsafe

PROGRAM = "mcp-bridge"
MODULE = ("-m", "mcp_bridge")
_OPTIONS_WITH_VALUE = frozenset({"--http", "--token-env", "--log-level", "--log-file"})
"""Options of `serve`."""


def of_place(client: Client, place: Place, machine: Machine) -> Sequence[Installed]:
    """The servers of one file; none where there is no file. Raises ConfigError for one that cannot be read."""
    path = path_of(place, machine)
    servers = servers_in(place, writing.load(path).content, path, machine)
    return tuple(
        Installed(client=client.name, place=place, path=path, name=name, value=value) for name, value in servers.items()
    )


def servers_in(place: Place, text: str, path: Path, machine: Machine) -> Mapping[str, Mapping[str, Any]]:
    """The servers in a text, by name. Raises ConfigError for a text that is not in the place's format."""
    entries = entries_in(place, text, path, machine)
    return {name: value for name, value in entries.items() if isinstance(value, Mapping)}


def entries_in(place: Place, text: str, path: Path, machine: Machine) -> Mapping[str, Any]:
    """Everything in the container of servers, by name, also what is not a server. Raises as `servers_in` does."""
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


def read(place: Place, path: Path, machine: Machine) -> tuple[Text, Mapping[str, Mapping[str, Any]]]:
    """Return a file that is to be edited, and the servers in it. Raises Unsafe for one that cannot be read."""
    with unsafe_at(path):
        file = writing.load(path)
        return file, servers_in(place, file.content, path, machine)


@contextlib.contextmanager
def unsafe_at(path: Path) -> Iterator[None]:
    """Raise every problem of a file as Unsafe with its path: the file is left alone."""
    try:
        yield
    except Changed:
        raise
    except ConfigError as error:
        raise Unsafe(
            error.problem, path=error.path or str(path), line=error.line, where=error.where, hint=error.hint or BY_HAND
        ) from None


def is_bridge(client: Client, value: Mapping[str, Any]) -> bool:
    """Whether an entry starts a bridge: by the command or the module, directly or through another command."""
    argv = started(client, value).argv
    if argv and _program_name(argv[0]) == PROGRAM:
        return True
    pairs = tuple(itertools.pairwise(argv))
    # `uvx mcp-bridge` is not one: the package of that name is another project's.
    return MODULE in pairs or any(_program_name(word) == PROGRAM and after == "serve" for word, after in pairs)


def served(client: Client, value: Mapping[str, Any]) -> str | None:
    """The settings that the bridge of an entry serves, as the entry spells them."""
    return settings_of(started(client, value).argv)


def settings_of(argv: Sequence[str]) -> str | None:
    """The settings that a bridge's command serves, as the command spells them; None where it names none."""
    words = iter(argv[argv.index("serve") + 1 :] if "serve" in argv else ())
    for word in words:
        if word in _OPTIONS_WITH_VALUE:
            next(words, None)
        elif not word.startswith("-"):
            return word
    return None


def names_bridge(argv: Sequence[str]) -> bool:
    """Whether a command is the bridge, or a Python that runs it; then its paths are on this machine.

    Another program (`uv run --directory`, `docker run`) may start the bridge elsewhere.
    """
    program = _program_name(argv[0]) if argv else ""
    return program == PROGRAM or (program.lower().startswith("python") and MODULE in itertools.pairwise(argv))


def _program_name(word: str) -> str:
    pure = PureWindowsPath(word) if "\\" in word else PurePath(word)
    return pure.stem if pure.suffix.lower() == ".exe" else pure.name
