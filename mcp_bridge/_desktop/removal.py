"""Removes a bridge from an MCP client: selects the servers, prepares a plan, and carries it out.

The journal has the changes of the installation. If the file still has them, the removal restores every byte. Otherwise,
it removes only the entry.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._desktop import client_command, config_file
from mcp_bridge._desktop.client import Client, ConfigPlace, InstalledServer, Machine
from mcp_bridge._desktop.config_file import FileSnapshot
from mcp_bridge._desktop.journal import InstallationJournal, InstallationRecord, iter_inheriting_records
from mcp_bridge._desktop.locations import find_place, resolve_place_path, resolve_server_keys
from mcp_bridge._desktop.servers import (
    is_bridge_entry,
    parse_entries,
    parse_servers,
    raise_as_unsafe,
    read_editable_file,
    read_servers,
)
from mcp_bridge._settings.documents import editor
from mcp_bridge._settings.documents.editor import find_lost_content
from mcp_bridge._settings.documents.syntax import UnsafeEdit


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalPlan:
    """The plan to remove a server: by a new text of the file, or by the client's command."""

    client: Client
    server: InstalledServer
    file: FileSnapshot
    text: str | None
    """The new content of the file; None: the file is removed."""
    servers: Mapping[str, Mapping[str, Any]]
    record: InstallationRecord | None = None
    command: Sequence[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalResult:
    """The result of a removal."""

    backup: str | None = None
    """The path of the backup; None if there is none."""
    command_problem: str | None = None
    """Why an edit was necessary although the client's own command has run; None if it was not."""
    is_restored: bool = False
    """Whether the file has the entry again that the installation had replaced."""


def select_servers(
    client: Client, machine: Machine, journal: InstallationJournal, *, name: str | None, scope: str | None, force: bool
) -> Sequence[InstalledServer]:
    """Select the servers of a scope to remove: the one with this name; without a name, those in the journal, or else
    all bridges.

    Raises ConfigError if there is none. The error names the scopes that have one.
    """
    place = find_place(client, scope)
    servers = read_servers(client, place, machine)
    recorded = [server for server in servers if _find_record(journal, client, server, machine) is not None]
    bridges = [server for server in servers if server in recorded or is_bridge_entry(client, server.value)]
    if name is None:
        if not bridges:
            raise _make_absence_error(client, place, machine, journal, None)
        return recorded or bridges
    matches = [server for server in servers if server.name == name]
    if not matches:
        raise _make_absence_error(client, place, machine, journal, name, [server.name for server in bridges])
    if not force and matches[0] not in bridges:
        hint = "Remove it anyway with --force."
        raise ConfigError(f"'{name}' in {client.title} is not a bridge", hint=hint)
    return matches


def find_vanished_records(
    client: Client, machine: Machine, journal: InstallationJournal, *, name: str | None, scope: str | None
) -> Sequence[InstallationRecord]:
    """Return the records of a scope about servers missing from the file; with a name, only the record of this server.

    Raises ConfigError if the file cannot be read.
    """
    place = find_place(client, scope)
    path = resolve_place_path(place, machine)
    keys = resolve_server_keys(place, machine)
    entries = parse_entries(place, config_file.load_file(path).content, path, machine)
    container = (client.name, place.scope, str(path), tuple(keys))
    return [
        record
        for record in journal.list_records()
        if (record.client, record.scope, record.path, tuple(record.within)) == container
        and name in (None, record.name)
        and record.name not in entries
    ]


def remove_record(record: InstallationRecord, journal: InstallationJournal, *, file_exists: bool) -> None:
    """Remove the record of a server. If the file remains, the records of its other entries inherit what to remove.

    Raises ConfigError if the journal cannot be written.
    """
    if file_exists:
        for inheriting_record in iter_inheriting_records(journal, record):
            journal.store_record(inheriting_record)
    journal.remove_record(record)


def prepare_removal(
    client: Client,
    server: InstalledServer,
    machine: Machine,
    journal: InstallationJournal,
    *,
    use_command: bool = False,
) -> RemovalPlan:
    """Plan the removal of a server. Nothing is changed.

    Raises UnsafeEdit if the file cannot be edited, ConfigError if the client's command cannot be used.
    """
    file, servers = read_editable_file(server.place, server.path, machine)
    record = _find_record(journal, client, server, machine)
    command = None
    # A client's command cannot restore the entry that the installation has replaced.
    if use_command and (record is None or "value" not in record.change):
        program = client_command.find_usable_program(client, server.place, machine, name=server.name, servers=servers)
        command = client_command.build_remove_command(client, server.place, server.name, program)
    text = _remove_entry(server, file, resolve_server_keys(server.place, machine), record)
    return RemovalPlan(
        client=client, server=server, file=file, text=text, servers=servers, record=record, command=command
    )


def apply_removal(removal: RemovalPlan, machine: Machine, journal: InstallationJournal) -> RemovalResult:
    """Carry out the removal and check the result. If the client's command fails, edit the file.

    Raises UnsafeEdit when the result is wrong; the file is then restored.
    """
    file = removal.file
    note = None
    if removal.command is not None:
        note = _run_command(removal, removal.command, machine)
    with raise_as_unsafe(file.path):
        if removal.command is None or note is not None:
            backup = config_file.save_file(file.path, file, removal.text, backup_folder=journal.backup_folder)
        else:
            backup = config_file.write_backup(file, journal.backup_folder)
    if removal.record is not None:
        if not os.path.lexists(file.path):
            config_file.remove_empty_folders(file.path, removal.record.made_folders)
        # If the record cannot be removed, it has no effect.
        with contextlib.suppress(ConfigError):
            remove_record(removal.record, journal, file_exists=removal.text is not None)
    is_restored = removal.record is not None and "value" in removal.record.change
    backup_path = str(backup) if backup is not None else None
    return RemovalResult(backup=backup_path, command_problem=note, is_restored=is_restored)


def _run_command(removal: RemovalPlan, command: Sequence[str], machine: Machine) -> str | None:
    """Run the client's command. If it does not remove exactly the server, restore the file and return what it did.

    For example, Gemini CLI removes no server in an untrusted folder.
    """
    path = removal.file.path
    remaining_servers = {name: value for name, value in removal.servers.items() if name != removal.server.name}
    try:
        client_command.run_client_command(command, machine)
        text = config_file.load_file(path).content
        problem = f"did not remove '{removal.server.name}' alone"
        if parse_servers(removal.server.place, text, path, machine) == remaining_servers:
            entry = (*resolve_server_keys(removal.server.place, machine), removal.server.name)
            lost_content = find_lost_content(removal.server.place.format, removal.file.content, text, entry=entry)
            if lost_content is None:
                return None
            problem = lost_content
    except ConfigError as error:
        problem = error.problem if isinstance(error, UnsafeEdit) else "left a file that cannot be read"
    with raise_as_unsafe(path):
        config_file.restore_file(removal.file)
    return f"{' '.join(command[:3])}: {problem}"


def _make_absence_error(
    client: Client,
    place: ConfigPlace,
    machine: Machine,
    journal: InstallationJournal,
    name: str | None,
    bridges: Sequence[str] = (),
) -> ConfigError:
    """Make the error for a scope without the server. It names the scopes with the server, or the searched files."""
    other_places = [candidate for candidate in client.places if candidate is not place]
    scopes = [candidate.scope for candidate in other_places if _is_in(client, candidate, machine, journal, name)]
    if scopes:
        server = f"server '{name}'" if name is not None else "bridge"
        hint = f"There is one in: {', '.join(scopes)}. Choose one with --scope."
        return ConfigError(f"{client.title} has no {server} in its scope '{place.scope}'", hint=hint)
    problem = f"no bridge is installed in {client.title}"
    if name is not None:
        problem = f"{client.title} has no server '{name}'"
    paths = dict.fromkeys(str(resolve_place_path(searched, machine)) for searched in (place, *other_places))
    hint = f"Looked at: {', '.join(paths)}. 'mcp-bridge install' lists them."
    if bridges:
        hint = f"Its bridges: {', '.join(bridges)}. {hint}"
    return ConfigError(problem, hint=hint)


def _is_in(
    client: Client, place: ConfigPlace, machine: Machine, journal: InstallationJournal, name: str | None
) -> bool:
    """Return whether a scope has the server, or the journal has a record of it; False if the file cannot be read."""
    with contextlib.suppress(ConfigError):
        for server in read_servers(client, place, machine):
            if server.name == name or (name is None and is_bridge_entry(client, server.value)):
                return True
        return bool(find_vanished_records(client, machine, journal, name=name, scope=place.scope))
    return False


def _find_record(
    journal: InstallationJournal, client: Client, server: InstalledServer, machine: Machine
) -> InstallationRecord | None:
    return journal.find_record(
        client.name, server.place.scope, server.path, resolve_server_keys(server.place, machine), server.name
    )


def _remove_entry(
    server: InstalledServer, file: FileSnapshot, keys: Sequence[str], record: InstallationRecord | None
) -> str | None:
    """Return the text without the server, or None if nothing else remains of a file that was created for it."""
    place = server.place
    change = record.change if record is not None else {}
    blank = change.get("blank")
    with raise_as_unsafe(file.path):
        text = editor.revert_change(place.format, file.content, keys, server.name, change, listed=place.listed)
        is_new = record is not None and (record.made_file or blank is not None)
        if not is_new or editor.has_other_content(place.format, text, place.opening):
            return text
    # An empty file is empty again, and a file that was created is removed.
    return blank
