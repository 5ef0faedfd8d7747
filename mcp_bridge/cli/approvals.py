"""`approvals`: which bridge, and what it remembers."""

from __future__ import annotations

import os
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import anyio

from mcp_bridge.app.approval_policy import remembered, sockets_folder
from mcp_bridge.approvals import sockets
from mcp_bridge.approvals.remembered import Grant, Remembered
from mcp_bridge.cli import answering, logs
from mcp_bridge.cli.exits import Exit, counted, escaped, say
from mcp_bridge.cli.showing import data
from mcp_bridge.cli.target import SETTINGS, find
from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.settings import Settings, load


def answer(file: Path | None) -> None:
    """Answer what bridges of these settings ask, until the person has enough. Raises ConfigError."""
    settings = _settings(file)
    if not sockets.are_there():
        raise ConfigError("this system has no sockets for that", hint="Use a client that can ask")
    if not settings.approvals.local:
        raise ConfigError("these settings let nobody approve at a terminal", where="approvals.local", hint="Set true")
    answering.answer(sockets_folder(settings), settings.path)


def show(file: Path | None, *, as_json: bool) -> None:
    """What is allowed for longer: a table for a person, ids on stdout where that is no terminal."""
    grants = anyio.run(_grants, _remembered(_settings(file)))
    if as_json:
        data([asdict(grant) for grant in grants])
        return
    _table(grants)


def revoke(id: str | None, file: Path | None, *, every: bool) -> None:
    """Revoke one decision, or `every` one; exit code 3 where there is none. Raises ConfigError."""
    if every and id is not None and file is None:
        file, id = Path(id), None
    if id is not None and file is None and Path(id).suffix.lower() in SETTINGS:
        raise ConfigError(f"'{id}' is a file and no id", where="revoke", hint="Name the id before it, or give --all")
    if every == (id is not None):
        raise ConfigError("nothing to revoke is named", where="revoke", hint="Name the id of a decision, or give --all")
    kept = _remembered(_settings(file))
    found = [grant for grant in anyio.run(_grants, kept) if every or grant.id.startswith(id or "")]
    if len(found) > 1 and not every:
        raise ConfigError(f"{len(found)} ids begin with '{id}'", where="revoke", hint="Name more of it")
    anyio.run(_forget, kept, found)
    say(f"{counted(len(found), 'decision')} revoked")
    if not found and not every:
        raise SystemExit(Exit.NOT_FOUND)


def _settings(file: Path | None) -> Settings:
    path = find(file)
    if path.suffix.lower() not in SETTINGS:
        raise ConfigError("no settings, so nothing asks here", path=str(path), hint="Name the settings that are served")
    settings = load(path, os.environ)
    logs.configure("warning")
    logs.hide(settings.secrets)
    return settings


def _remembered(settings: Settings) -> Remembered:
    """Raises ConfigError where this process cannot see what a bridge remembers."""
    if settings.approvals.store == "memory":
        hint = "It is forgotten when the bridge ends; have approvals.store: sqlite to look into it"
        raise ConfigError("decisions are kept in the memory of the bridge", where="approvals.store", hint=hint)
    kept = remembered(settings)
    if kept is None:
        raise ConfigError("these settings remember nothing", where="approvals.remember", hint="Set true")
    return kept


async def _grants(kept: Remembered) -> list[Grant]:
    try:
        return await kept.list()
    except TypeError as error:
        hint = "Give it `async keys(prefix)`"
        raise ConfigError(
            f"this store cannot say what is in it: {error}", where="approvals.store", hint=hint
        ) from error
    except OSError as error:
        raise ConfigError(str(error), where="approvals.path") from error


async def _forget(kept: Remembered, grants: list[Grant]) -> None:
    try:
        for grant in grants:
            await kept.revoke(grant.id)
    except OSError as error:
        raise ConfigError(str(error), where="approvals.path") from error


def _table(grants: list[Grant]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("id", "tool", "arguments", "allowed", "for", "since", "until", box=None, header_style="bold")
    table.columns[0].no_wrap = True
    for grant in grants:
        scope = f"{grant.scope} {grant.session}".strip()
        who = grant.principal or "everybody"
        cells = (grant.id[:12], grant.tool, grant.arguments[:12], scope, who, _day(grant.at), _day(grant.until))
        table.add_row(*map(escaped, cells))
        if not os.isatty(1):
            print(grant.id)
    console = Console(stderr=True, highlight=False, markup=False)
    console.print(table if grants else "nothing is allowed for longer than a call")


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
