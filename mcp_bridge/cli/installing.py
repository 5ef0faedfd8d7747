"""`mcp-bridge install`: the bridge put into a client, or shown as it would be."""

from __future__ import annotations

import os
import random
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from mcp_bridge.cli.clients import client_named
from mcp_bridge.cli.exits import Exit, say
from mcp_bridge.cli.served import Served, entry_for
from mcp_bridge.clients import installing
from mcp_bridge.clients.client import Client, Entry, Machine, Place
from mcp_bridge.clients.installing import Done, Plan
from mcp_bridge.clients.journal import Journal
from mcp_bridge.clients.locating import found, here, path_of, place_of, within
from mcp_bridge.clients.masking import difference
from mcp_bridge.clients.shaping import reference, refers, shaped
from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.documents.edit import Changed, Unsafe

T = TypeVar("T")

DONE = {"install": "installed", "update": "updated", "replace": "replaced", "none": "already installed"}
ATTEMPTS = 6
"""How often an entry is tried to be written while other programs write the same file."""
PAUSE = (0.02, 0.2)
"""Seconds between two of them."""
WOULD = {"install": "would install", "update": "would update", "replace": "would replace", "none": "already installed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """The options of `install`."""

    scope: str | None = None
    name: str | None = None
    dry_run: bool = False
    only_print: bool = False
    link: bool = False
    force: bool = False
    edit_file: bool = False
    as_json: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is to go where."""

    client: Client
    place: Place
    entry: Entry
    serves: Served
    machine: Machine
    wishes: Wishes

    @property
    def path(self) -> Path:
        """The client's file."""
        return path_of(self.place, self.machine)


def install(name: str, settings: Path | None, wishes: Wishes) -> None:
    """Put the bridge into a client. Raises ConfigError; exits with 1 where the client's file is left alone."""
    client = client_named(name)
    only = [option for option, is_meant in _instead(wishes) if is_meant]
    if len(only) > 1:
        raise ConfigError(f"cannot be together with {' and '.join(only[1:])}", where=only[0], hint="Choose one.")
    place = place_of(client, wishes.scope)
    entry, serves = entry_for(settings, wishes.name)
    task = Task(client=client, place=place, entry=entry, serves=serves, machine=here(), wishes=wishes)
    if wishes.link:
        _show_link(task)
    elif wishes.only_print:
        _show_snippet(task)
    else:
        _install(task)


def _instead(wishes: Wishes) -> Sequence[tuple[str, bool]]:
    """The options that show something instead of installing it."""
    return ("--print", wishes.only_print), ("--link", wishes.link), ("--dry-run", wishes.dry_run)


def journal() -> Journal:
    """What was installed where, kept for this user."""
    from platformdirs import user_state_path

    return Journal(user_state_path("mcp-bridge", appauthor=False))


def answer(value: dict[str, Any]) -> None:
    """The whole answer as JSON on stdout."""
    from mcp_bridge.cli.showing import data

    data(value)


def again_if_changed(attempt: Callable[[], T]) -> T:
    """What an attempt gives; one that another program has come between is made again, a few times. Raises Changed."""
    for _ in range(ATTEMPTS - 1):
        try:
            return attempt()
        except Changed:
            time.sleep(random.uniform(*PAUSE))  # noqa: S311 - so that two do not meet again
    return attempt()


def _install(task: Task) -> None:
    wishes, notes, tried = task.wishes, journal(), list[Plan]()
    try:
        if wishes.dry_run:
            _show_plan(task, _planned(task, notes))
            return
        plan, done = again_if_changed(lambda: _carried_out(task, notes, tried))
    except Unsafe as error:
        _left_alone(task, error)
    if wishes.as_json:
        answer(_facts(task, plan, DONE) | {"backup": done.backup, "notes": [*_remarks(task, plan, done)]})
        return
    say(f"{DONE[plan.action]}: '{plan.entry.name}' in {_where(task)}")
    for line in _remarks(task, plan, done):
        say(f"  {line}")


def _planned(task: Task, notes: Journal) -> Plan:
    force, edit_file = task.wishes.force, task.wishes.edit_file
    return installing.planned(
        task.client, task.place, task.entry, task.machine, notes, force=force, edit_file=edit_file
    )


def _carried_out(task: Task, notes: Journal, tried: list[Plan]) -> tuple[Plan, Done]:
    """One attempt. What an earlier one has written after all is there by now, and not noted down yet."""
    plan, settings = _planned(task, notes), str(task.serves.path)
    if plan.action == "none" and tried:
        return tried[0], Done(unnoted=installing.noted(tried[0], task.machine, notes, settings))
    tried.append(plan)
    return plan, installing.carry_out(plan, task.machine, notes, settings=settings)


def _show_plan(task: Task, plan: Plan) -> None:
    keys, texts = within(plan.place, task.machine), (plan.file.content, plan.edit.text)
    shown = difference(plan.client, plan.place, plan.file.path, keys, plan.entry.name, texts)
    if task.wishes.as_json:
        answer(_facts(task, plan, WOULD) | {"difference": shown})
        return
    say(f"{WOULD[plan.action]}: '{plan.entry.name}' in {_where(task)}")
    if plan.command is not None:
        say("  by the client's own command (--edit-file: by an edit of the file instead):")
        print(shlex.join(plan.command))
    elif shown:
        print(shown, end="")


def _show_link(task: Task) -> None:
    from mcp_bridge.clients.client_file import link

    address, notes = link(task.client.name, task.entry), [*_of_secrets(task.client, task.entry.secrets)]
    if task.wishes.as_json:
        answer({"client": task.client.name, "name": task.entry.name, "link": address, "notes": notes})
        return
    print(address)
    for line in notes:
        say(line)


def _show_snippet(task: Task) -> None:
    notes = [*_of_secrets(task.client, task.entry.secrets)]
    if task.wishes.as_json:
        value = dict(shaped(task.client, task.place, task.entry))
        base = {"client": task.client.name, "scope": task.place.scope, "path": str(task.path), "notes": notes}
        answer(base | {"name": task.entry.name, "entry": value, "snippet": _snippet(task)})
        return
    say(f"for {_where(task)}:")
    print(_snippet(task), end="")
    for line in notes:
        say(line)


def _snippet(task: Task) -> str:
    from mcp_bridge.clients.client_file import snippet

    value = shaped(task.client, task.place, task.entry)
    return snippet(task.place, task.entry, value, task.machine)


def _left_alone(task: Task, error: Unsafe) -> None:
    """Say why, and what to paste where, if there is a file or can be one."""
    can_paste = os.path.isfile(task.path) or not os.path.lexists(task.path)
    if task.wishes.as_json:
        base = {"client": task.client.name, "scope": task.place.scope, "path": str(task.path)}
        said = {"action": "left alone", "problem": str(error), "snippet": _snippet(task) if can_paste else None}
        answer(base | {"name": task.entry.name} | said)
    else:
        say(f"mcp-bridge: {error}")
    if can_paste and not task.wishes.as_json:
        say(f"This is what belongs into {task.path}:")
        print(_snippet(task), end="")
    raise SystemExit(Exit.FAILED)


def _where(task: Task) -> str:
    return f"{task.client.title} ({task.place.scope}), {task.path}"


def _facts(task: Task, plan: Plan, words: dict[str, str]) -> dict[str, Any]:
    return {
        "client": task.client.name,
        "scope": task.place.scope,
        "path": str(plan.file.path),
        "name": plan.entry.name,
        "action": words[plan.action],
        "entry": dict(shaped(plan.client, plan.place, plan.entry)),  # not what a person has added
        "command": list(plan.command) if plan.command is not None else None,
        "secrets": list(plan.entry.secrets),
    }


def _remarks(task: Task, plan: Plan, done: Done) -> Iterator[str]:
    """What the person should know now."""
    if done.backup is not None:
        yield f"backup: {done.backup}"
    if done.unnoted is not None:
        yield f"it could not be noted down, and will be taken out without that: {done.unnoted}"
    if not found(task.client, task.machine):
        yield f"{task.client.title} itself was not found on this machine"
    yield from task.serves.notes
    yield from _of_secrets(task.client, plan.entry.secrets)
    if task.place.scope == "project":
        yield "the file has absolute paths of this machine in it: others who share the project need their own"
    if plan.action != "none" and task.client.after:
        yield task.client.after


def _of_secrets(client: Client, names: Sequence[str]) -> Iterator[str]:
    if names:
        how = [reference(client, name) or name for name in names] if refers(client) else names
        yield f"variables it needs: {', '.join(how)}. {client.secrets}"
