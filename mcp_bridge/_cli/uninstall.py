"""`uninstall`: removes the server from an MCP client, or shows the change."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mcp_bridge._cli.clients import find_client
from mcp_bridge._cli.desktop_options import UninstallOptions
from mcp_bridge._cli.exits import ExitCode
from mcp_bridge._cli.install import retry_if_changed
from mcp_bridge._cli.output import report, write_json
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._desktop import removal
from mcp_bridge._desktop.client import Client, InstalledServer, Machine
from mcp_bridge._desktop.entry_display import render_entry_diff
from mcp_bridge._desktop.journal import InstallationJournal, InstallationRecord, open_journal
from mcp_bridge._desktop.locations import detect_machine, resolve_server_keys
from mcp_bridge._desktop.removal import RemovalPlan
from mcp_bridge._desktop.servers import get_entry_url, get_served_settings
from mcp_bridge._settings.documents.syntax import UnsafeEdit


def uninstall_server(options: UninstallOptions) -> None:
    """Remove servers from a client. Exit with 1 if the client's file cannot be changed. Raises ConfigError."""
    remover = _Remover(
        client=find_client(options.client), machine=detect_machine(), journal=open_journal(), options=options
    )
    rows = remover.remove_all()
    if options.as_json:
        write_json({"client": remover.client.name, "removed": rows})
    if any("problem" in row for row in rows):
        raise SystemExit(ExitCode.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Remover:
    """Removes servers from one client. Its methods report their actions, and return them as rows of JSON."""

    client: Client
    machine: Machine
    journal: InstallationJournal
    options: UninstallOptions

    def remove_all(self) -> list[dict[str, Any]]:
        """Remove the chosen servers, and the records of servers missing from the file."""
        client = self.client
        machine = self.machine
        journal = self.journal
        options = self.options
        records = removal.find_vanished_records(client, machine, journal, name=options.name, scope=options.scope)
        try:
            servers = removal.select_servers(
                client, machine, journal, name=options.name, scope=options.scope, force=options.force
            )
        except ConfigError:
            if not records:
                raise
            servers = ()
        servers = self._choose_servers(servers)
        rows = [self._forget(record) for record in records]
        rows += [self._remove_entry(server) for server in servers]
        return rows

    def _choose_servers(self, servers: Sequence[InstalledServer]) -> Sequence[InstalledServer]:
        """Return the servers to remove: the only one, all with --all, or the choice of the user at a terminal.

        Raises ConfigError if the user cannot be asked.
        """
        if len(servers) < 2 or self.options.all_servers:
            return servers
        lines: list[str] = []
        for server in servers:
            url = get_entry_url(self.client, server.value)
            settings = get_served_settings(self.client, server.value)
            place = f"is at {url}" if url is not None else f"serves {settings or 'no explicit file'}"
            lines.append(f"{server.name} {place}")
        if not sys.stdin.isatty() or self.options.as_json:
            hint = "\n  ".join(["Pass the name of one, or --all:", *lines])
            raise ConfigError(f"{self.client.title} has {len(servers)} bridges", hint=hint)
        report(f"{self.client.title} has {len(servers)} bridges:")
        for number, line in enumerate(lines, start=1):
            report(f"  {number} = {line}")
        while True:
            report("Type the number of the one to remove, or `all`. An empty line cancels.")
            word = sys.stdin.readline().strip()
            if not word:
                raise SystemExit(ExitCode.FAILED)
            if word == "all":
                return servers
            if word.isdecimal() and 0 < int(word) <= len(servers):
                return [servers[int(word) - 1]]

    def _report(self, text: str) -> None:
        if not self.options.as_json:
            report(text)

    def _forget(self, record: InstallationRecord) -> dict[str, Any]:
        """Remove the record of a server, after its entry was removed from the file."""
        action = "would forget" if self.options.dry_run else "forgotten"
        if not self.options.dry_run:
            removal.remove_record(record, self.journal, file_exists=os.path.exists(record.path))
        self._report(f"{action}: '{record.name}' is no longer in {self.client.title} ({record.scope}), {record.path}")
        return {"name": record.name, "scope": record.scope, "path": record.path, "action": action}

    def _remove_entry(self, server: InstalledServer) -> dict[str, Any]:
        row: dict[str, Any] = {"name": server.name, "scope": server.place.scope, "path": str(server.path)}
        location = f"'{server.name}' from {self.client.title} ({server.place.scope}), {server.path}"
        try:
            if self.options.dry_run:
                return row | {"action": "would remove"} | self._show_plan(self._make_plan(server), location)
            result = retry_if_changed(
                lambda: removal.apply_removal(self._make_plan(server), self.machine, self.journal)
            )
        except UnsafeEdit as error:
            self._report(f"mcp-bridge: {error}\nRemove '{server.name}' from {server.path} yourself.")
            return row | {"action": "left alone", "problem": str(error)}
        self._report(f"removed: {location}")
        if result.command_problem is not None:
            self._report(f"  by editing the file, because the client's own command failed: {result.command_problem}")
        if result.is_restored:
            self._report("  and restored the entry that it had replaced")
        if result.backup is not None:
            self._report(f"  backup: {result.backup}")
        if self.client.removal_steps:
            self._report(f"  {self.client.removal_steps}")
        row |= {"action": "removed", "restored": result.is_restored}
        return row | {"backup": result.backup, "note": result.command_problem}

    def _make_plan(self, server: InstalledServer) -> RemovalPlan:
        use_command = self.options.use_client_command
        return removal.prepare_removal(self.client, server, self.machine, self.journal, use_command=use_command)

    def _show_plan(self, plan: RemovalPlan, location: str) -> dict[str, Any]:
        server = plan.server
        keys = resolve_server_keys(server.place, self.machine)
        texts = (plan.file.content, plan.text or "")
        diff = render_entry_diff(plan.client, server.place, plan.file.path, keys, server.name, texts)
        self._report(f"would remove: {location}")
        if not self.options.as_json:
            print(diff if plan.command is None else f"{shlex.join(plan.command)}\n", end="")
        return {"command": list(plan.command) if plan.command is not None else None, "difference": diff}
