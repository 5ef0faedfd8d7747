"""Removal of a bridge from a client: which servers are meant, the plan, and its execution."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_bridge.clients import commands, writing
from mcp_bridge.clients.client import Client, Installed, Machine, Place
from mcp_bridge.clients.journal import Journal, Record, heirs
from mcp_bridge.clients.locating import path_of, place_of, within
from mcp_bridge.clients.reading import entries_in, is_bridge, of_place, read, servers_in, unsafe_at
from mcp_bridge.clients.writing import Text
from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.documents import editor
from mcp_bridge.documents.edit import Unsafe


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """The plan to remove a server: the text that remains, or the command that does it."""

    client: Client
    server: Installed
    file: Text
    text: str | None
    """The new content of the file; None: the file is removed."""
    servers: Mapping[str, Mapping[str, Any]]
    record: Record | None = None
    command: Sequence[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """The result of a removal: the backup, and why the client's own command was not enough."""

    backup: str | None = None
    note: str | None = None


def chosen(
    client: Client, machine: Machine, journal: Journal, *, name: str | None, scope: str | None, force: bool
) -> Sequence[Installed]:
    """Choose the servers of a scope: the one of this name, else those in the journal, else the only bridge.

    Raises ConfigError when there is none or the choice is ambiguous; it names the scopes that have one.
    """
    place = place_of(client, scope)
    servers = of_place(client, place, machine)
    ours = [server for server in servers if is_bridge(client, server.value)]
    if name is not None:
        named = [server for server in servers if server.name == name]
        if named and not force and named[0] not in ours:
            hint = "Remove it anyway with --force."
            raise ConfigError(f"'{name}' in {client.title} is not a bridge", hint=hint)
        if not named:
            raise _make_absence_error(client, place, machine, journal, name)
        return named
    installed = [server for server in ours if _find_record(journal, client, server, machine) is not None]
    if installed or len(ours) == 1:
        return installed or ours
    if not ours:
        raise _make_absence_error(client, place, machine, journal, None)
    names = ", ".join(f"{server.name} ({server.place.scope})" for server in ours)
    raise ConfigError(f"{client.title} has {len(ours)} bridges: {names}", hint="Name the one to remove.")


def vanished(
    client: Client, machine: Machine, journal: Journal, *, name: str | None, scope: str | None
) -> Sequence[Record]:
    """The records of a scope, or the one of this name, whose server is no longer in the file.

    Raises ConfigError for a file that cannot be read.
    """
    place = place_of(client, scope)
    path, keys = path_of(place, machine), within(place, machine)
    entries = entries_in(place, writing.load(path).content, path, machine)
    return [
        record
        for record in journal.all()
        if (record.client, record.scope, record.path) == (client.name, place.scope, str(path))
        and (tuple(record.within), name or record.name) == (tuple(keys), record.name)
        and record.name not in entries
    ]


def forget(record: Record, journal: Journal, *, file_exists: bool) -> None:
    """Remove the record of a server; where its file still exists, the other entries in it inherit what is to be undone.

    Raises ConfigError where that cannot be written.
    """
    for heir in heirs(journal, record) if file_exists else ():
        journal.remember(heir)
    journal.forget(record)


def planned(
    client: Client, server: Installed, machine: Machine, journal: Journal, *, edit_file: bool = False
) -> Removal:
    """Plan the removal of a server; nothing is changed. Raises Unsafe for a file that cannot be edited."""
    file, servers = read(server.place, server.path, machine)
    record = _find_record(journal, client, server, machine)
    program = None
    if record is not None and record.undo.get("by") == "command" and not edit_file:
        program = commands.usable(client, server.place, machine, name=server.name, servers=servers)
    command = commands.removing(client, server.place, server.name, program) if program is not None else None
    text = _edit_file(server, file, within(server.place, machine), record)
    return Removal(client=client, server=server, file=file, text=text, servers=servers, record=record, command=command)


def carry_out(removal: Removal, machine: Machine, journal: Journal) -> Gone:
    """Carry out the removal and check the result. An edit follows where the client's command did not remove the server.

    Raises Unsafe when the result is wrong; the file is then restored.
    """
    file, note = removal.file, None
    if removal.command is not None:
        note = _run_command(removal, removal.command, machine)
    with unsafe_at(file.path):
        if removal.command is None or note is not None:
            backup = writing.save(file.path, file, removal.text, backup=True)
        else:
            backup = writing.back_up(file)
    if removal.record is not None:
        with contextlib.suppress(ConfigError):  # a record that remains has no effect
            forget(removal.record, journal, file_exists=removal.text is not None)
    return Gone(backup=str(backup) if backup is not None else None, note=note)


def _run_command(removal: Removal, command: Sequence[str], machine: Machine) -> str | None:
    """Run the client's command. Where it does something else, restore the file and return what it did.

    Gemini CLI's, for one, finds no server in a folder that is not trusted.
    """
    path = removal.file.path
    expected = {name: value for name, value in removal.servers.items() if name != removal.server.name}
    try:
        commands.run(command, machine)
        if servers_in(removal.server.place, writing.load(path).content, path, machine) == expected:
            return None
        problem = f"did not remove '{removal.server.name}' alone"
    except ConfigError as error:
        problem = error.problem if isinstance(error, Unsafe) else "left a file that cannot be read"
    with unsafe_at(path):
        writing.restore(removal.file)
    return f"{' '.join(command[:3])}: {problem}"


def _make_absence_error(
    client: Client, place: Place, machine: Machine, journal: Journal, name: str | None
) -> ConfigError:
    """The error for a scope without the server: it names the scopes that have it, or the files that were searched."""
    others = [other for other in client.places if other is not place]
    scopes = [other.scope for other in others if _is_in(client, other, machine, journal, name)]
    what = f"no server '{name}'" if name is not None else "no bridge"
    if scopes:
        hint = f"There is one in: {', '.join(scopes)}. Choose one with --scope."
        return ConfigError(f"{client.title} has {what} in its scope '{place.scope}'", hint=hint)
    paths = dict.fromkeys(str(path_of(each, machine)) for each in (place, *others))
    problem = f"{client.title} has {what}" if name is not None else f"{what} is installed in {client.title}"
    return ConfigError(problem, hint=f"Looked at: {', '.join(paths)}. See 'mcp-bridge clients'.")


def _is_in(client: Client, place: Place, machine: Machine, journal: Journal, name: str | None) -> bool:
    """Whether a scope has the server, or had it; False for a file that cannot be read."""
    with contextlib.suppress(ConfigError):
        servers = of_place(client, place, machine)
        if any(server.name == name if name is not None else is_bridge(client, server.value) for server in servers):
            return True
        return bool(vanished(client, machine, journal, name=name, scope=place.scope))
    return False


def _find_record(journal: Journal, client: Client, server: Installed, machine: Machine) -> Record | None:
    return journal.find(client.name, server.place.scope, server.path, within(server.place, machine), server.name)


def _edit_file(server: Installed, file: Text, keys: Sequence[str], record: Record | None) -> str | None:
    """The text without the server; None for a file that was made for it and has nothing else."""
    place = server.place
    undo = record.undo.get("edit") if record is not None else None
    known = undo if isinstance(undo, Mapping) and undo else None
    with unsafe_at(file.path):
        text = editor.drop(place.format, file.content, keys, server.name, listed=place.listed, undo=known)
    made = record is not None and record.undo.get("made") is True
    return None if made and text in {"", place.opening} else text
