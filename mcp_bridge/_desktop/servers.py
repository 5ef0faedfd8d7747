"""The servers in a client's files, and the bridges among them."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath, PureWindowsPath
from typing import Any

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._desktop import config_file
from mcp_bridge._desktop.client import Client, ConfigPlace, InstalledServer, Machine
from mcp_bridge._desktop.config_file import FileSnapshot
from mcp_bridge._desktop.entries import parse_entry_command, resolve_launch
from mcp_bridge._desktop.locations import resolve_place_path, resolve_server_keys
from mcp_bridge._settings.documents import editor
from mcp_bridge._settings.documents.syntax import BY_HAND, FileChanged, UnsafeEdit

PROGRAM = "mcp-bridge"
MODULE = ("-m", "mcp_bridge")
_OPTIONS_WITH_VALUE = frozenset({"--http", "--token-env", "--log-level", "--log-file"})
"""The options of `serve` with a value, which is not the file that is served."""


def read_servers(client: Client, place: ConfigPlace, machine: Machine) -> Sequence[InstalledServer]:
    """Return the servers of one file. Without a file, there are none. Raises ConfigError if it cannot be read."""
    path = resolve_place_path(place, machine)
    servers = parse_servers(place, config_file.load_file(path).content, path, machine)
    return tuple(
        InstalledServer(client=client.name, place=place, path=path, name=name, value=value)
        for name, value in servers.items()
    )


def parse_servers(place: ConfigPlace, text: str, path: Path, machine: Machine) -> Mapping[str, Mapping[str, Any]]:
    """Return the servers in a text, by name. Raises ConfigError for a text in another format."""
    entries = parse_entries(place, text, path, machine)
    return {name: value for name, value in entries.items() if isinstance(value, Mapping)}


def parse_entries(place: ConfigPlace, text: str, path: Path, machine: Machine) -> Mapping[str, Any]:
    """Return all entries in the container of servers by name, even invalid ones. Raises as `parse_servers` does."""
    if place.script:
        if not text:
            return {}
        raise _make_script_error(path)
    try:
        data = editor.read_data(place.format, text)
    except ConfigError as error:
        raise ConfigError(error.problem, path=str(path), line=error.line, where=error.where, hint=error.hint) from None
    return select_entries(place, data, resolve_server_keys(place, machine))


def select_entries(place: ConfigPlace, data: Any, keys: Sequence[str]) -> Mapping[str, Any]:
    """Return the entries in a container, by name. `keys` are the path to it."""
    for key in keys:
        data = data.get(key) if isinstance(data, Mapping) else None
    entries: dict[str, Any] = {}
    if isinstance(data, Mapping):
        entries = {str(name): value for name, value in data.items()}
    elif place.listed and isinstance(data, list):
        for item in data:
            if isinstance(item, Mapping) and isinstance(item.get("name"), str):
                entries[item["name"]] = item
    return entries


def read_editable_file(
    place: ConfigPlace, path: Path, machine: Machine
) -> tuple[FileSnapshot, Mapping[str, Mapping[str, Any]]]:
    """Return a file to edit, and its servers. Raises UnsafeEdit if it cannot be read, or is a script."""
    if place.script:
        raise _make_script_error(path)
    with raise_as_unsafe(path):
        file = config_file.load_file(path)
        return file, parse_servers(place, file.content, path, machine)


def _make_script_error(path: Path) -> UnsafeEdit:
    hint = "Add or remove the line of a server yourself."
    return UnsafeEdit("a script, which mcp-bridge neither reads nor edits", path=str(path), hint=hint)


@contextlib.contextmanager
def raise_as_unsafe(path: Path) -> Iterator[None]:
    """Raise every problem of a file as UnsafeEdit with its path, because the file is not changed."""
    try:
        yield
    except FileChanged:
        raise
    except ConfigError as error:
        raise UnsafeEdit(
            error.problem, path=error.path or str(path), line=error.line, where=error.where, hint=error.hint or BY_HAND
        ) from None


def is_bridge_entry(client: Client, value: Mapping[str, Any]) -> bool:
    """Return whether an entry starts a bridge, directly or through another command such as `uv run`."""
    return starts_bridge(parse_entry_command(client, value).argv)


def starts_bridge(argv: Sequence[str]) -> bool:
    """Return whether a command starts a bridge, directly or through another command such as `uv run`.

    It contains `-m mcp_bridge` or `mcp-bridge serve`, or begins with `mcp-bridge`.
    """
    if argv and _get_program_name(argv[0]) == PROGRAM:
        return True
    pairs = tuple(itertools.pairwise(argv))
    # `uvx` with the name of the command does not start one: the package of this name belongs to another project.
    return MODULE in pairs or any(_get_program_name(word) == PROGRAM and after == "serve" for word, after in pairs)


def get_served_settings(client: Client, value: Mapping[str, Any]) -> str | None:
    """Return the settings of an entry's bridge, as the entry spells them."""
    return find_settings_argument(parse_entry_command(client, value).argv)


def get_entry_url(client: Client, value: Mapping[str, Any]) -> str | None:
    """Return the address of an entry for HTTP, or None."""
    keys = [key for key, text in (client.remote_shape or {}).items() if text == "{url}"]
    url = value.get(keys[0]) if keys else None
    return url if isinstance(url, str) else None


def find_served_target(
    client: Client, place: ConfigPlace, path: Path, name: str, value: Any, machine: Machine
) -> str | None:
    """Return what an entry leads to: its address, or the file that its bridge serves, with links resolved.

    Returns None for other programs, and if the bridge is started without a file.
    """
    if not isinstance(value, Mapping):
        return None
    url = get_entry_url(client, value)
    if url is not None:
        return url
    if not is_bridge_entry(client, value):
        return None
    launch = resolve_launch(
        InstalledServer(client=client.name, place=place, path=path, name=name, value=value), machine
    )
    argument = find_settings_argument(launch.argv)
    return os.path.realpath(launch.folder / argument) if argument is not None else None


def find_settings_argument(argv: Sequence[str]) -> str | None:
    """Return the settings that a bridge's command serves, as the command spells them; None if it names none."""
    if "serve" not in argv:
        return None
    words = iter(argv[argv.index("serve") + 1 :])
    for word in words:
        if word in _OPTIONS_WITH_VALUE:
            next(words, None)
        elif not word.startswith("-"):
            return word
    return None


def is_bridge_command(argv: Sequence[str]) -> bool:
    """Return whether a command is the bridge itself, or a Python with its module. Then its paths are on this machine.

    Another program, such as `docker run` or `uv run --directory`, may start the bridge elsewhere.
    """
    program = _get_program_name(argv[0]) if argv else ""
    return program == PROGRAM or (program.lower().startswith("python") and MODULE in itertools.pairwise(argv))


def _get_program_name(word: str) -> str:
    pure = PureWindowsPath(word) if "\\" in word else PurePath(word)
    return pure.stem if pure.suffix.lower() == ".exe" else pure.name
