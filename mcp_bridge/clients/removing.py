"""Taking a bridge out of a client again: which, what would be done, and doing it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_bridge.clients import commands, documents, writing
from mcp_bridge.clients.client import Client, Installed, Machine
from mcp_bridge.clients.edit import Unsafe
from mcp_bridge.clients.inheriting import heirs
from mcp_bridge.clients.installing import read, unsafe_at
from mcp_bridge.clients.journal import Journal, Record
from mcp_bridge.clients.locating import place_of, within
from mcp_bridge.clients.reading import is_bridge, of_place, servers_in
from mcp_bridge.clients.writing import Text
from mcp_bridge.contracts.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """A server that is to be taken out: the text that stays, or the command that does it."""

    client: Client
    server: Installed
    file: Text
    text: str | None
    """What the file is to hold; None: nothing, it is removed."""
    servers: Mapping[str, Mapping[str, Any]]
    record: Record | None = None
    command: Sequence[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """What has been done: the backup that was made, and why the client's own command was not enough."""

    backup: str | None = None
    note: str | None = None


def chosen(
    client: Client, machine: Machine, journal: Journal, *, name: str | None, scope: str | None, force: bool
) -> Sequence[Installed]:
    """The servers that are meant: those of that name, else those that were installed from here, else the one bridge.

    Raises ConfigError when none or another is meant.
    """
    servers = _servers(client, machine, scope)
    if name is not None:
        return _named(client, [server for server in servers if server.name == name], name, force=force)
    ours = [server for server in servers if is_bridge(client, server.value)]
    installed = [server for server in ours if _record(journal, client, server, machine) is not None]
    if installed or len(ours) == 1:
        return installed or ours
    if not ours:
        raise ConfigError(f"no bridge is installed in {client.title}", hint="See 'mcp-bridge clients'.")
    names = ", ".join(f"{server.name} ({server.place.scope})" for server in ours)
    raise ConfigError(f"{client.title} has {len(ours)} bridges: {names}", hint="Name the one to take out.")


def planned(
    client: Client, server: Installed, machine: Machine, journal: Journal, *, edit_file: bool = False
) -> Removal:
    """What would be done to take a server out; nothing is changed. Raises Unsafe for a file that cannot be edited."""
    file, servers = read(server.place, server.path, machine)
    record = _record(journal, client, server, machine)
    program = None
    if record is not None and record.undo.get("by") == "command" and not edit_file:
        program = commands.usable(client, server.place, machine, servers=servers)
    command = commands.removing(client, server.place, server.name, program) if program is not None else None
    text = _without(server, file, within(server.place, machine), record)
    return Removal(client=client, server=server, file=file, text=text, servers=servers, record=record, command=command)


def carry_out(removal: Removal, machine: Machine, journal: Journal) -> Gone:
    """Take it out, and look whether it is gone and everything else is there.

    Raises Unsafe when it is not; the file is then as it was. A command that does not do it leaves it to the edit:
    Gemini CLI's, for one, finds no server in a folder that is not trusted.
    """
    file, note = removal.file, None
    backup = None
    if removal.command is not None:
        note = _run(removal, removal.command, machine)
    with unsafe_at(file.path):
        if removal.command is None or note is not None:
            backup = writing.save(file.path, file, removal.text, backup=True)
        else:
            backup = writing.back_up(file)
    if removal.record is not None:
        with contextlib.suppress(ConfigError):  # one that stays is about nothing that is there
            for heir in heirs(journal, removal.record) if removal.text is not None else ():
                journal.remember(heir)
            journal.forget(removal.record)
    return Gone(backup=str(backup) if backup is not None else None, note=note)


def _run(removal: Removal, command: Sequence[str], machine: Machine) -> str | None:
    """Run the client's command; if it does something else, the file is put back, and the answer says what it did."""
    path = removal.file.path
    expected = {name: value for name, value in removal.servers.items() if name != removal.server.name}
    try:
        commands.run(command, machine)
        if servers_in(removal.server.place, writing.load(path).content, path, machine) == expected:
            return None
        problem = f"did not take out '{removal.server.name}' alone"
    except ConfigError as error:
        problem = error.problem if isinstance(error, Unsafe) else "left a file that cannot be read"
    with unsafe_at(path):
        writing.restore(removal.file)
    return f"{' '.join(command[:3])}: {problem}"


def _servers(client: Client, machine: Machine, scope: str | None) -> Sequence[Installed]:
    places = client.places if scope is None else (place_of(client, scope),)
    found: list[Installed] = []
    problems: list[ConfigError] = []
    for place in places:
        try:
            found += of_place(client, place, machine)
        except ConfigError as error:
            problems.append(error)
    if problems and not any(is_bridge(client, server.value) for server in found):
        raise problems[0]
    return found


def _named(client: Client, servers: Sequence[Installed], name: str, *, force: bool) -> Sequence[Installed]:
    if not servers:
        raise ConfigError(f"{client.title} has no server '{name}'", hint="See 'mcp-bridge clients'.")
    if len(servers) > 1:
        scopes = ", ".join(server.place.scope for server in servers)
        raise ConfigError(f"{client.title} has '{name}' more than once: {scopes}", hint="Say which with --scope.")
    if not force and not is_bridge(client, servers[0].value):
        hint = "Take it out with --force if you mean it."
        raise ConfigError(f"'{name}' in {client.title} is not a bridge, but somebody else's server", hint=hint)
    return servers


def _record(journal: Journal, client: Client, server: Installed, machine: Machine) -> Record | None:
    return journal.find(client.name, server.place.scope, server.path, within(server.place, machine), server.name)


def _without(server: Installed, file: Text, keys: Sequence[str], record: Record | None) -> str | None:
    place = server.place
    undo = record.undo.get("edit") if record is not None else None
    kept = undo if isinstance(undo, Mapping) and undo else None
    with unsafe_at(file.path):
        text = documents.drop(place.format, file.content, keys, server.name, listed=place.listed, undo=kept)
    made = record is not None and record.undo.get("made") is True
    return None if made and text in {"", place.opening} else text
