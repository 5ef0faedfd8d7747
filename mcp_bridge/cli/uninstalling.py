"""`mcp-bridge uninstall`: the bridge taken out of a client, or shown as it would be."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from typing import Any

from mcp_bridge.cli.clients import client_named
from mcp_bridge.cli.exits import Exit, say
from mcp_bridge.cli.installing import again_if_changed, answer, journal
from mcp_bridge.clients import removing
from mcp_bridge.clients.client import Client, Installed, Machine
from mcp_bridge.clients.journal import Journal, Record
from mcp_bridge.clients.locating import here, within
from mcp_bridge.clients.masking import difference
from mcp_bridge.clients.removing import Gone, Removal
from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.documents.edit import Unsafe


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
    gone = removing.vanished(client, machine, notes, name=wishes.name, scope=wishes.scope)
    try:
        servers = removing.chosen(client, machine, notes, name=wishes.name, scope=wishes.scope, force=wishes.force)
    except ConfigError:
        if not gone:
            raise
        servers = ()
    rows = [_forgotten(client, record, machine, notes, wishes) for record in gone]
    rows += [_one(client, server, machine, notes, wishes) for server in servers]
    if wishes.as_json:
        answer({"client": client.name, "removed": rows})
    if any("problem" in row for row in rows):
        raise SystemExit(Exit.FAILED)


def _forgotten(client: Client, record: Record, machine: Machine, notes: Journal, wishes: Wishes) -> dict[str, Any]:
    """Forget a server that somebody else has taken out."""
    action = "would forget" if wishes.dry_run else "forgotten"
    if not wishes.dry_run:
        removing.forget(record, notes, file_exists=os.path.exists(record.path))
    if not wishes.as_json:
        say(f"{action}: '{record.name}' is no longer in {client.title} ({record.scope}), {record.path}")
    return {"name": record.name, "scope": record.scope, "path": record.path, "action": action}


def _one(client: Client, server: Installed, machine: Machine, notes: Journal, wishes: Wishes) -> dict[str, Any]:
    row: dict[str, Any] = {"name": server.name, "scope": server.place.scope, "path": str(server.path)}
    where = f"'{server.name}' from {client.title} ({server.place.scope}), {server.path}"
    try:
        if wishes.dry_run:
            removal = removing.planned(client, server, machine, notes, edit_file=wishes.edit_file)
            return row | {"action": "would take out"} | _shown(removal, where, machine, wishes)
        gone = again_if_changed(lambda: _carried_out(client, server, machine, notes, wishes))
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
        if client.after_removal:
            say(f"  {client.after_removal}")
    return row | {"action": "taken out", "backup": gone.backup, "note": gone.note}


def _carried_out(client: Client, server: Installed, machine: Machine, notes: Journal, wishes: Wishes) -> Gone:
    removal = removing.planned(client, server, machine, notes, edit_file=wishes.edit_file)
    return removing.carry_out(removal, machine, notes)


def _shown(removal: Removal, where: str, machine: Machine, wishes: Wishes) -> dict[str, Any]:
    """What would be done; of the entry, what somebody may have written into it is not shown."""
    server = removal.server
    keys, texts = within(server.place, machine), (removal.file.content, removal.text or "")
    shown = difference(removal.client, server.place, removal.file.path, keys, server.name, texts)
    if not wishes.as_json:
        say(f"would take out: {where}")
        if removal.command is not None:
            print(shlex.join(removal.command))
        else:
            print(shown, end="")
    return {"command": list(removal.command) if removal.command is not None else None, "difference": shown}
