"""Taking a bridge out of a client again: which, what would be done, and doing it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_bridge.clients import commands, writing
from mcp_bridge.clients.client import Client, Installed, Machine, Place
from mcp_bridge.clients.inheriting import heirs
from mcp_bridge.clients.installing import read, unsafe_at
from mcp_bridge.clients.journal import Journal, Record
from mcp_bridge.clients.locating import path_of, place_of, within
from mcp_bridge.clients.reading import content, entries_in, is_bridge, of_place, servers_in
from mcp_bridge.clients.writing import Text
from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.documents import editor
from mcp_bridge.documents.edit import Unsafe


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
    """The servers of a scope that are meant: that of the name, else those installed from here, else the one bridge.

    Raises ConfigError when none or another is meant; it names the scopes that have what this one lacks.
    """
    place = place_of(client, scope)
    servers = of_place(client, place, machine)
    ours = [server for server in servers if is_bridge(client, server.value)]
    if name is not None:
        named = [server for server in servers if server.name == name]
        if named and not force and named[0] not in ours:
            hint = "Take it out with --force if you mean it."
            raise ConfigError(f"'{name}' in {client.title} is not a bridge, but somebody else's server", hint=hint)
        if not named:
            raise _absent(client, place, machine, journal, name)
        return named
    installed = [server for server in ours if _record(journal, client, server, machine) is not None]
    if installed or len(ours) == 1:
        return installed or ours
    if not ours:
        raise _absent(client, place, machine, journal, None)
    names = ", ".join(f"{server.name} ({server.place.scope})" for server in ours)
    raise ConfigError(f"{client.title} has {len(ours)} bridges: {names}", hint="Name the one to take out.")


def vanished(
    client: Client, machine: Machine, journal: Journal, *, name: str | None, scope: str | None
) -> Sequence[Record]:
    """The records of a scope, or the one of that name, about servers that its file no longer has.

    Raises ConfigError for a file that cannot be read.
    """
    place = place_of(client, scope)
    path, keys = path_of(place, machine), within(place, machine)
    entries = entries_in(place, content(path), path, machine)
    return [
        record
        for record in journal.all()
        if (record.client, record.scope, record.path) == (client.name, place.scope, str(path))
        and (tuple(record.within), name or record.name) == (tuple(keys), record.name)
        and record.name not in entries
    ]


def forget(record: Record, journal: Journal, *, kept: bool) -> None:
    """Forget a server; where its file is `kept`, the others in it take over what is to be undone.

    Raises ConfigError where that cannot be written.
    """
    for heir in heirs(journal, record) if kept else ():
        journal.remember(heir)
    journal.forget(record)


def planned(
    client: Client, server: Installed, machine: Machine, journal: Journal, *, edit_file: bool = False
) -> Removal:
    """What would be done to take a server out; nothing is changed. Raises Unsafe for a file that cannot be edited."""
    file, servers = read(server.place, server.path, machine)
    record = _record(journal, client, server, machine)
    program = None
    if record is not None and record.undo.get("by") == "command" and not edit_file:
        program = commands.usable(client, server.place, machine, name=server.name, servers=servers)
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
            forget(removal.record, journal, kept=removal.text is not None)
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


def _absent(client: Client, place: Place, machine: Machine, journal: Journal, name: str | None) -> ConfigError:
    """The error for a scope that has nothing that is meant: where else it is, or which files were looked at."""
    others = [other for other in client.places if other is not place]
    scopes = [other.scope for other in others if _is_in(client, other, machine, journal, name)]
    what = f"no server '{name}'" if name is not None else "no bridge"
    if scopes:
        hint = f"There is one in: {', '.join(scopes)}. Say which with --scope."
        return ConfigError(f"{client.title} has {what} in its scope '{place.scope}'", hint=hint)
    paths = dict.fromkeys(str(path_of(each, machine)) for each in (place, *others))
    problem = f"{client.title} has {what}" if name is not None else f"{what} is installed in {client.title}"
    return ConfigError(problem, hint=f"Looked at: {', '.join(paths)}. See 'mcp-bridge clients'.")


def _is_in(client: Client, place: Place, machine: Machine, journal: Journal, name: str | None) -> bool:
    """Whether a scope has what is meant, or had it; one that cannot be read has nothing."""
    with contextlib.suppress(ConfigError):
        servers = of_place(client, place, machine)
        if any(server.name == name if name is not None else is_bridge(client, server.value) for server in servers):
            return True
        return bool(vanished(client, machine, journal, name=name, scope=place.scope))
    return False


def _record(journal: Journal, client: Client, server: Installed, machine: Machine) -> Record | None:
    return journal.find(client.name, server.place.scope, server.path, within(server.place, machine), server.name)


def _without(server: Installed, file: Text, keys: Sequence[str], record: Record | None) -> str | None:
    place = server.place
    undo = record.undo.get("edit") if record is not None else None
    kept = undo if isinstance(undo, Mapping) and undo else None
    with unsafe_at(file.path):
        text = editor.drop(place.format, file.content, keys, server.name, listed=place.listed, undo=kept)
    made = record is not None and record.undo.get("made") is True
    return None if made and text in {"", place.opening} else text
