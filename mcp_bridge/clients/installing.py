"""Putting a bridge into a client: what would be done, and doing it."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from mcp_bridge.clients import commands, writing
from mcp_bridge.clients.client import Client, Entry, Machine, Place
from mcp_bridge.clients.difference import MARK
from mcp_bridge.clients.journal import Journal, Record
from mcp_bridge.clients.locating import path_of, within
from mcp_bridge.clients.masking import command_of
from mcp_bridge.clients.merging import merged
from mcp_bridge.clients.reading import entries_in, is_bridge, servers_in
from mcp_bridge.clients.shaping import shaped, started
from mcp_bridge.clients.writing import Text
from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.documents import editor
from mcp_bridge.documents.edit import BY_HAND, Changed, Unsafe

Action = Literal["install", "update", "replace", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be done to a client's file, or has been done when it is carried out; `action` says why."""

    client: Client
    place: Place
    file: Text
    entry: Entry
    value: Mapping[str, Any]
    action: Action
    servers: Mapping[str, Mapping[str, Any]]
    """Those that are there before."""
    edit: editor.Edit
    """The file after an edit, also where a command is to make it."""
    command: Sequence[str] | None = None
    """The client's own command that does it, instead of the edit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What has been done: the backup that was made, and what could not be noted down."""

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
    """What would be done to install an entry; nothing is changed.

    Raises Unsafe for a file that cannot be edited, ConfigError for one that cannot be read and for a name that
    somebody else's server has.
    """
    file, servers = read(place, path_of(place, machine), machine)
    entries = entries_in(place, file.content, file.path, machine)
    value, action = _wanted(client, place, entry, entries, path=file.path, force=force)
    keys = within(place, machine)
    record = None
    if action == "update":  # anything else was not put there by the one that is noted
        record = journal.find(client.name, place.scope, file.path, keys, entry.name)
    edit = _edited(place, file, entry.name, value, keys, record)
    own = action == "install" and not edit_file
    program = commands.usable(client, place, machine, name=entry.name, servers=servers, entry=entry) if own else None
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
    """Do what is planned, look whether it is as it should be, and note it down.

    Raises ConfigError when it is not; the file is then as it was.
    """
    if plan.action == "none":
        return Done()
    if plan.command is not None:
        with unsafe_at(plan.file.path):
            backup = writing.back_up(plan.file)
        command_checked(plan, plan.command, machine)
    else:
        with unsafe_at(plan.file.path):
            backup = writing.save(plan.file.path, plan.file, plan.edit.text, backup=True)
    return Done(backup=str(backup) if backup is not None else None, unnoted=noted(plan, machine, journal, settings))


def noted(plan: Plan, machine: Machine, journal: Journal, settings: str) -> str | None:
    """Note down what has been installed; an update keeps what the first installation made. What went wrong, if it
    did."""
    record = Record(
        client=plan.client.name,
        scope=plan.place.scope,
        path=str(plan.file.path),
        within=tuple(within(plan.place, machine)),
        name=plan.entry.name,
        value=shaped(plan.client, plan.place, plan.entry),  # what a person has added may be secret
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


def snippet(place: Place, entry: Entry, value: Mapping[str, Any], machine: Machine) -> str:
    """A whole file with nothing but the entry in it, to be pasted."""
    return editor.put(place.format, "", within(place, machine), entry.name, value, listed=place.listed).text


def command_checked(plan: Plan, command: Sequence[str], machine: Machine) -> None:
    """Run the client's command, and put the file back if that failed or did something else.

    Raises ConfigError with what the command has printed.
    """
    try:
        printed = commands.run(command, machine)
        problem = _result_problem(plan, machine)
    except ConfigError:
        writing.restore(plan.file)
        raise
    if problem is not None:
        writing.restore(plan.file)
        raise commands.failed(command, problem, printed)


def _result_problem(plan: Plan, machine: Machine) -> str | None:
    """What is not as it should be after the client's command has run."""
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


def _wanted(
    client: Client, place: Place, entry: Entry, entries: Mapping[str, Any], *, path: Path, force: bool
) -> tuple[Mapping[str, Any], Action]:
    """The value that is to be there, and why; of somebody else's server nothing is kept."""
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


def _edited(
    place: Place, file: Text, name: str, value: Mapping[str, Any], keys: Sequence[str], record: Record | None
) -> editor.Edit:
    text = file.content if file.existed else place.opening
    undo = record.undo.get("edit") if record is not None else None
    kept = undo if isinstance(undo, Mapping) else None
    with unsafe_at(file.path):
        return editor.put(place.format, text, keys, name, value, listed=place.listed, undo=kept)


def read(place: Place, path: Path, machine: Machine) -> tuple[Text, Mapping[str, Mapping[str, Any]]]:
    """A file and the servers in it. Raises Unsafe for one that cannot be read, and so not be edited."""
    with unsafe_at(path):
        file = writing.load(path)
        return file, servers_in(place, file.content, path, machine)


@contextlib.contextmanager
def unsafe_at(path: Path) -> Iterator[None]:
    """Whatever is wrong with a file, as Unsafe with its path: it is left alone, and the person is told."""
    try:
        yield
    except Changed:
        raise
    except ConfigError as error:
        raise Unsafe(
            error.problem, path=error.path or str(path), line=error.line, where=error.where, hint=error.hint or BY_HAND
        ) from None
