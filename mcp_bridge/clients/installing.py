"""Installation of a bridge into a client: the plan, and its execution."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from mcp_bridge.clients import commands, writing
from mcp_bridge.clients.client import Client, Entry, Machine, Place
from mcp_bridge.clients.journal import Journal, Record
from mcp_bridge.clients.locating import path_of, within
from mcp_bridge.clients.masking import MARK, command_of
from mcp_bridge.clients.reading import entries_in, is_bridge, read, servers_in, unsafe_at
from mcp_bridge.clients.shaping import merged, shaped, started
from mcp_bridge.clients.writing import Text
from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.documents import editor
from mcp_bridge.documents.edit import Edit

Action = Literal["install", "update", "replace", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What an installation does to a client's file; `action` says why."""

    client: Client
    place: Place
    file: Text
    entry: Entry
    value: Mapping[str, Any]
    action: Action
    servers: Mapping[str, Mapping[str, Any]]
    """The servers in the file before."""
    edit: Edit
    """The file after an edit, also where a command is to change it."""
    command: Sequence[str] | None = None
    """The client's own command that does it instead of the edit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The result of an installation: the backup, and why the journal has no record of it."""

    backup: str | None = None
    unnoted: str | None = None


def planned(
    client: Client,
    place: Place,
    entry: Entry,
    machine: Machine,
    journal: Journal,
    *,
    force: bool = False,
    edit_file: bool = False,
) -> Plan:
    """Plan the installation of an entry; nothing is changed.

    Raises Unsafe for a file that cannot be edited, ConfigError for one that cannot be read and for a name that another
    program's server has.
    """
    file, servers = read(place, path_of(place, machine), machine)
    entries = entries_in(place, file.content, file.path, machine)
    value, action = _choose_value(client, place, entry, entries, path=file.path, force=force)
    keys = within(place, machine)
    record = None
    if action == "update":  # the journal describes no other entry of this name
        record = journal.find(client.name, place.scope, file.path, keys, entry.name)
    edit = _edit_file(place, file, entry.name, value, keys, record)
    program = None
    if action == "install" and not edit_file:
        program = commands.usable(client, place, machine, name=entry.name, servers=servers, entry=entry)
    return Plan(
        client=client,
        place=place,
        file=file,
        entry=entry,
        value=value,
        action=action,
        servers=servers,
        edit=edit,
        command=commands.adding(client, place, entry, program) if program is not None else None,
    )


def carry_out(plan: Plan, machine: Machine, journal: Journal, *, settings: str) -> Done:
    """Carry out the plan, check the result, and record it.

    Raises ConfigError when the result is wrong; the file is then restored.
    """
    if plan.action == "none":
        return Done()
    with unsafe_at(plan.file.path):
        if plan.command is None:
            backup = writing.save(plan.file.path, plan.file, plan.edit.text, backup=True)
        else:
            backup = writing.back_up(plan.file)
    if plan.command is not None:
        _run_command(plan, plan.command, machine)
    return Done(backup=str(backup) if backup is not None else None, unnoted=noted(plan, machine, journal, settings))


def noted(plan: Plan, machine: Machine, journal: Journal, settings: str) -> str | None:
    """Record an installation in the journal; an update keeps what the first installation made.

    Returns the problem, if it cannot be recorded.
    """
    record = Record(
        client=plan.client.name,
        scope=plan.place.scope,
        path=str(plan.file.path),
        within=tuple(within(plan.place, machine)),
        name=plan.entry.name,
        value=shaped(plan.client, plan.place, plan.entry),  # what the user added to the entry may be secret
        settings=settings,
        undo={
            "by": "command" if plan.command is not None else "edit",
            "made": not plan.file.existed,
            "edit": dict(plan.edit.undo),
        },
        when=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )
    try:
        first = journal.find(record.client, record.scope, record.path, record.within, record.name)
        if first is not None and plan.action == "update":
            record = replace(record, undo={**first.undo, "edit": dict(plan.edit.undo)})
        journal.remember(record)
    except (ConfigError, OSError) as error:
        return str(error)
    return None


def _run_command(plan: Plan, command: Sequence[str], machine: Machine) -> None:
    """Run the client's command. Restores the file and raises ConfigError if it fails or does something else."""
    try:
        output = commands.run(command, machine)
        problem = _check_result(plan, machine)
    except ConfigError:
        writing.restore(plan.file)
        raise
    if problem is not None:
        writing.restore(plan.file)
        raise commands.failed(command, problem, output)


def _check_result(plan: Plan, machine: Machine) -> str | None:
    """What the client's command did wrong."""
    path = plan.file.path
    try:
        after = dict(servers_in(plan.place, writing.load(path).content, path, machine))
    except ConfigError as error:
        return f"left a file that cannot be read ({error.problem})"
    mine = after.pop(plan.entry.name, None)
    if mine is None:
        return f"did not write '{plan.entry.name}' into {path}"
    if started(plan.client, mine) != started(plan.client, plan.value):
        return f"wrote another entry than it was given into {path}"
    if after != {name: value for name, value in plan.servers.items() if name != plan.entry.name}:
        return f"changed other servers in {path}"
    return None


def _choose_value(
    client: Client, place: Place, entry: Entry, entries: Mapping[str, Any], *, path: Path, force: bool
) -> tuple[Mapping[str, Any], Action]:
    """The value to write, and why; nothing is kept of a server that is not a bridge."""
    value = shaped(client, place, entry)
    if entry.name not in entries:
        return value, "install"
    old = entries[entry.name]
    if isinstance(old, Mapping) and is_bridge(client, old):
        value = merged(client, old, value)
        return value, "none" if value == old else "update"
    if not force:
        hint = "Choose another name with --name, or replace it with --force."
        problem = f"{client.title} has another server of the name '{entry.name}'"
        command = command_of(client, old)
        starts = f", which starts {command}" if command != MARK else ""
        raise ConfigError(problem + starts, path=str(path), hint=hint)
    return value, "replace"


def _edit_file(
    place: Place, file: Text, name: str, value: Mapping[str, Any], keys: Sequence[str], record: Record | None
) -> Edit:
    text = file.content if file.existed else place.opening
    undo = record.undo.get("edit") if record is not None else None
    with unsafe_at(file.path):
        return editor.put(
            place.format,
            text,
            keys,
            name,
            value,
            listed=place.listed,
            undo=undo if isinstance(undo, Mapping) else None,
        )
