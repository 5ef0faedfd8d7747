"""Installs a bridge into an MCP client: prepares a plan, and carries it out.

The plan has the new text of the client's file, so it can be shown before anything changes. It is carried out by an edit
of the file, or by the client's own command. The journal records all changes, for a later removal.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._desktop import client_command, config_file
from mcp_bridge._desktop.client import Client, ConfigPlace, Machine, ServerEntry
from mcp_bridge._desktop.config_file import FileSnapshot
from mcp_bridge._desktop.entries import build_entry_value, merge_entry_values, parse_entry_command
from mcp_bridge._desktop.entry_display import REDACTION_MARK, redact_command
from mcp_bridge._desktop.journal import InstallationJournal, InstallationRecord
from mcp_bridge._desktop.locations import resolve_place_path, resolve_server_keys
from mcp_bridge._desktop.servers import (
    find_served_target,
    is_bridge_entry,
    parse_entries,
    parse_servers,
    raise_as_unsafe,
    read_editable_file,
)
from mcp_bridge._settings.documents import editor
from mcp_bridge._settings.documents.editor import find_lost_content
from mcp_bridge._settings.documents.syntax import detect_newline

Action = Literal["install", "update", "replace", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationPlan:
    """The plan of an installation in a client's file.

    `action` describes the change: the entry is new (`install`), replaces an entry of this bridge (`update`) or of
    another server (`replace`), or is there already (`none`).
    """

    client: Client
    place: ConfigPlace
    file: FileSnapshot
    entry: ServerEntry
    value: Mapping[str, Any]
    action: Action
    servers: Mapping[str, Mapping[str, Any]]
    """The servers that the file has before."""
    original: str
    """The text that a later removal restores: that of the file, without an earlier entry of this bridge."""
    text: str
    """The text of the file with the entry, even if a command makes the change."""
    missing_folders: Sequence[Path] = ()
    """The folders to create for the file."""
    command: Sequence[str] | None = None
    """The client's own command, if it makes the change instead of an edit."""
    blank: str | None = None
    """The text of an empty file to which `ConfigPlace.opening` is added, for the removal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationResult:
    """The result of an installation."""

    backup: str | None = None
    """The path of the backup; None if there was no file."""
    journal_problem: str | None = None
    """Why the journal has no record of the installation; None if it has."""
    is_reformatted: bool = False
    """Whether the client's command has changed the layout of the file."""


def prepare_installation(
    client: Client,
    place: ConfigPlace,
    entry: ServerEntry,
    machine: Machine,
    journal: InstallationJournal,
    *,
    force: bool = False,
    use_command: bool = False,
) -> InstallationPlan:
    """Plan the installation of an entry. Nothing is changed.

    Raises UnsafeEdit if the file cannot be edited. Raises ConfigError if it cannot be read, if another server has the
    name, or if the client's own command cannot be used.
    """
    file, servers = read_editable_file(place, resolve_place_path(place, machine), machine)
    entries = parse_entries(place, file.content, file.path, machine)
    value, action = _choose_value(client, place, entry, entries, path=file.path, machine=machine, force=force)
    keys = resolve_server_keys(place, machine)
    original = file.content if file.existed else place.opening
    blank = None
    if place.opening and not original.strip():
        # The client would reject an empty file without the beginning of a new one.
        blank = original
        original = place.opening.replace("\n", detect_newline(blank))
    with raise_as_unsafe(file.path):
        text = editor.put_entry(place.format, original, keys, entry.name, value, listed=place.listed)
        # A removal after the update restores the text from before the first installation, if the journal has it.
        if action == "update":
            record = journal.find_record(client.name, place.scope, file.path, keys, entry.name)
            change = record.change if record is not None else {}
            original = editor.revert_change(place.format, original, keys, entry.name, change, listed=place.listed)
    command = None
    if action == "install" and use_command:
        program = client_command.find_usable_program(
            client, place, machine, name=entry.name, servers=servers, entry=entry
        )
        command = client_command.build_add_command(client, place, entry, program)
    return InstallationPlan(
        client=client,
        place=place,
        file=file,
        entry=entry,
        value=value,
        action=action,
        servers=servers,
        original=original,
        text=text,
        missing_folders=config_file.list_missing_folders(file.path),
        command=command,
        blank=blank,
    )


def apply_installation(
    plan: InstallationPlan, machine: Machine, journal: InstallationJournal, *, settings: str
) -> InstallationResult:
    """Carry out the plan, check the result, and record it.

    Raises ConfigError when the result is wrong; the file is then restored.
    """
    if plan.action == "none":
        return InstallationResult()
    file = plan.file
    with raise_as_unsafe(file.path):
        if plan.command is None:
            backup = config_file.save_file(file.path, file, plan.text, backup_folder=journal.backup_folder)
        else:
            backup = config_file.write_backup(file, journal.backup_folder)
    if plan.command is not None:
        _run_command(plan, plan.command, machine)
    return InstallationResult(
        backup=str(backup) if backup is not None else None,
        journal_problem=record_installation(plan, machine, journal, settings),
        is_reformatted=plan.command is not None and config_file.load_file(file.path).content != plan.text,
    )


def build_redacted_value(plan: InstallationPlan) -> Mapping[str, Any]:
    """Return the entry with the values of variables redacted, and without the additions of the user to an old entry."""
    variables = dict.fromkeys(plan.entry.variables, REDACTION_MARK)
    return build_entry_value(plan.client, replace(plan.entry, variables=variables))


def record_installation(
    plan: InstallationPlan, machine: Machine, journal: InstallationJournal, settings: str
) -> str | None:
    """Record an installation in the journal. After an update, the record still has what the first one created.

    Returns the problem if the installation cannot be recorded.
    """
    place = plan.place
    keys = resolve_server_keys(place, machine)
    name = plan.entry.name
    path = plan.file.path
    first = None
    if plan.action == "update":
        first = journal.find_record(plan.client.name, place.scope, path, keys, name)
    try:
        text = plan.text if plan.command is None else config_file.load_file(path).content
        change = dict(editor.describe_change(place.format, plan.original, text, keys, name, listed=place.listed))
        blank = plan.blank if first is None else first.change.get("blank")
        if blank is not None:
            change["blank"] = blank
        record = InstallationRecord(
            client=plan.client.name,
            scope=place.scope,
            path=str(path),
            within=tuple(keys),
            name=name,
            value=build_redacted_value(plan),
            settings=settings,
            change=change,
            made_file=first.made_file if first is not None else not plan.file.existed,
            made_folders=first.made_folders if first is not None else tuple(map(str, plan.missing_folders)),
            when=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        )
        journal.store_record(record)
    except (ConfigError, OSError) as error:
        return str(error)
    return None


def _run_command(plan: InstallationPlan, command: Sequence[str], machine: Machine) -> None:
    """Run the client's command. Restores the file and raises ConfigError if it fails or does something else."""
    try:
        output = client_command.run_client_command(command, machine)
        problem = _check_result(plan, machine)
    except ConfigError:
        _restore_file(plan)
        raise
    if problem is not None:
        _restore_file(plan)
        raise client_command.make_command_error(command, problem, output)


def _restore_file(plan: InstallationPlan) -> None:
    config_file.restore_file(plan.file)
    config_file.remove_empty_folders(plan.file.path, list(map(str, plan.missing_folders)))


def _check_result(plan: InstallationPlan, machine: Machine) -> str | None:
    """Return the mistake of the client's command, or None."""
    path = plan.file.path
    entry = (*resolve_server_keys(plan.place, machine), plan.entry.name)
    try:
        text = config_file.load_file(path).content
        after = dict(parse_servers(plan.place, text, path, machine))
        lost_content = find_lost_content(plan.place.format, plan.file.content, text, entry=entry)
    except ConfigError as error:
        return f"left a file that cannot be read ({error.problem})"
    new_value = after.pop(plan.entry.name, None)
    if new_value is None:
        return f"did not write '{plan.entry.name}' into {path}"
    if parse_entry_command(plan.client, new_value) != parse_entry_command(plan.client, plan.value):
        return f"wrote another entry than it was given into {path}"
    if after != {name: value for name, value in plan.servers.items() if name != plan.entry.name}:
        return f"changed other servers in {path}"
    if lost_content is not None:
        return f"{lost_content} in {path}"
    return None


def _choose_value(
    client: Client,
    place: ConfigPlace,
    entry: ServerEntry,
    entries: Mapping[str, Any],
    *,
    path: Path,
    machine: Machine,
    force: bool,
) -> tuple[Mapping[str, Any], Action]:
    """Return the value to write, and the action.

    An entry that serves the same file is updated, and keeps the additions of the user. Any other entry of this name is
    replaced as a whole, but only with `force`.
    """
    value = build_entry_value(client, entry)
    if entry.name not in entries:
        return value, "install"
    old = entries[entry.name]
    target = find_served_target(client, place, path, entry.name, old, machine)
    if target is not None and target == find_served_target(client, place, path, entry.name, value, machine):
        value = merge_entry_values(client, old, value)
        return value, "none" if value == old else "update"
    if not force:
        raise _make_name_error(client, entry.name, old, target, path)
    return value, "none" if value == old else "replace"


def _make_name_error(client: Client, name: str, old: Any, target: str | None, path: Path) -> ConfigError:
    hint = "Choose another name with --name, or replace it with --force."
    if isinstance(old, Mapping) and is_bridge_entry(client, old):
        problem = f"{client.title} has a bridge named '{name}' that serves {target or 'another file'}"
        return ConfigError(problem, path=str(path), hint=hint)
    problem = f"{client.title} has another server named '{name}'"
    command = redact_command(client, old)
    if command != REDACTION_MARK:
        problem += f", which starts {command}"
    return ConfigError(problem, path=str(path), hint=hint)
