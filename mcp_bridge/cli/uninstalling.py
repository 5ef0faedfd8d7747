"""`mcp-bridge uninstall`: the bridge taken out of a client, or shown as it would be."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

from mcp_bridge.cli.clients import client_named
from mcp_bridge.cli.exits import Exit, say
from mcp_bridge.cli.installing import answer, journal
from mcp_bridge.clients import removing
from mcp_bridge.clients.client import Client, Installed, Machine
from mcp_bridge.clients.difference import strings, unified
from mcp_bridge.clients.edit import Unsafe
from mcp_bridge.clients.journal import Journal
from mcp_bridge.clients.locating import here
from mcp_bridge.clients.removing import Removal
from mcp_bridge.clients.shaping import started


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """The options of `uninstall`."""

    name: str | None = None
    scope: str | None = None
    dry_run: bool = False
    force: bool = False
    edit_file: bool = False
    as_json: bool = False


def uninstall(name: str, wishes: Wishes) -> None:
    """Take the bridge out of a client. Raises ConfigError; exits with 1 where the client's file is left alone."""
    client, machine, notes = client_named(name), here(), journal()
    servers = removing.chosen(client, machine, notes, name=wishes.name, scope=wishes.scope, force=wishes.force)
    rows = [_one(client, server, machine, notes, wishes) for server in servers]
    if wishes.as_json:
        answer({"client": client.name, "removed": rows})
    if any("problem" in row for row in rows):
        raise SystemExit(Exit.FAILED)


def _one(client: Client, server: Installed, machine: Machine, notes: Journal, wishes: Wishes) -> dict[str, Any]:
    row: dict[str, Any] = {"name": server.name, "scope": server.place.scope, "path": str(server.path)}
    where = f"'{server.name}' from {client.title} ({server.place.scope}), {server.path}"
    try:
        removal = removing.planned(client, server, machine, notes, edit_file=wishes.edit_file)
        if wishes.dry_run:
            return row | {"action": "would take out"} | _shown(removal, where, wishes)
        gone = removing.carry_out(removal, machine, notes)
    except Unsafe as error:
        if not wishes.as_json:
            say(f"mcp-bridge: {error}")
            say(f"Take out '{server.name}' by hand, in {server.path}")
        return row | {"action": "left alone", "problem": str(error)}
    if not wishes.as_json:
        say(f"taken out: {where}")
        if gone.note is not None:
            say(f"  by an edit of the file, because its own command did not do it: {gone.note}")
        if gone.backup is not None:
            say(f"  backup: {gone.backup}")
        if client.after:
            say(f"  {client.after}")
    return row | {"action": "taken out", "backup": gone.backup, "note": gone.note}


def _shown(removal: Removal, where: str, wishes: Wishes) -> dict[str, Any]:
    """What would be done; of the entry, what somebody may have written into it is not shown."""
    value = removal.server.value
    known = {*started(removal.client, value).argv, *strings(removal.client.shape)}
    hidden = [word for word in strings(value) if word not in known]
    shown = unified(removal.file.path, removal.file.content, removal.text or "", hidden=hidden)
    if not wishes.as_json:
        say(f"would take out: {where}")
        if removal.command is not None:
            print(shlex.join(removal.command))
        else:
            print(shown, end="")
    return {"command": list(removal.command) if removal.command is not None else None, "difference": shown}
