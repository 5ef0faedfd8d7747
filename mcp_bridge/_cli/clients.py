"""`clients`: the MCP clients on this machine, their settings files, and the bridges in them."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mcp_bridge._cli.desktop_options import ClientsOptions
from mcp_bridge._cli.output import format_count, print_lines, write_json
from mcp_bridge._cli.server_address import is_target
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._desktop.client import Client, ConfigPlace, InstalledServer, Machine
from mcp_bridge._desktop.locations import detect_machine, is_client_installed, resolve_place_path
from mcp_bridge._desktop.servers import get_served_settings, is_bridge_entry, read_servers
from mcp_bridge._desktop.table import CLIENTS


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFile:
    """A settings file of a client: the servers in it, or the error that it cannot be read."""

    place: ConfigPlace
    path: Path
    exists: bool
    servers: Sequence[InstalledServer] = ()
    error: ConfigError | None = None

    @property
    def problem(self) -> str | None:
        """The error without its path and hint."""
        if self.error is None:
            return None
        line = f"line {self.error.line}: " if self.error.line is not None else ""
        return line + str(ConfigError(self.error.problem, where=self.error.where))


def find_client(name: str) -> Client:
    """Return the client with a name. Raises ConfigError that suggests similar names."""
    client = CLIENTS.get(name.lower())
    if client is not None:
        return client
    names = suggest_clients(name)
    question = f"Did you mean {' or '.join(names)}? " if names else ""
    if not names and is_target(name):
        question = "Put the client before the file. "
    raise ConfigError(f"unknown client '{name}'", hint=f"{question}Known clients: {', '.join(CLIENTS)}.")


def suggest_clients(word: str) -> Sequence[str]:
    """Suggest names of clients by program, title or first part of the name, otherwise by similarity."""
    word = word.lower()
    exact = [
        client.name
        for client in CLIENTS.values()
        if word in (client.title.lower(), *client.programs) or client.name.startswith(f"{word}-")
    ]
    similar = difflib.get_close_matches(word, CLIENTS, n=3, cutoff=0.5)
    return exact or [*similar, *(name for name in CLIENTS if len(word) > 2 and word in name and name not in similar)]


def list_clients(options: ClientsOptions) -> None:
    """List the clients that are installed or have a file, or all of them with --json."""
    machine = detect_machine()
    rows = [
        (
            client,
            is_client_installed(client, machine),
            [read_client_file(client, place, machine) for place in client.places],
        )
        for client in CLIENTS.values()
    ]
    if options.as_json:
        write_json([_describe_client(*row) for row in rows])
        return
    missing = []
    for client, is_installed, files in rows:
        if not is_installed and not any(file.exists for file in files):
            missing.append(client.name)
            continue
        print_lines(f"{client.title} ({client.name}){'' if is_installed else ', not installed, but it has a file'}")
        print_lines(*(f"  {line}" for line in _describe_files(client, files)))
    if missing:
        print_lines(f"not found: {', '.join(missing)}")


def read_client_file(client: Client, place: ConfigPlace, machine: Machine) -> ClientFile:
    path = resolve_place_path(place, machine)
    exists = os.path.isfile(path) or os.path.islink(path)
    try:
        return ClientFile(place=place, path=path, exists=exists, servers=read_servers(client, place, machine))
    except ConfigError as error:
        return ClientFile(place=place, path=path, exists=True, error=error)


def _describe_files(client: Client, files: Sequence[ClientFile]) -> Iterator[str]:
    for file in files:
        count = "" if file.error is not None else f" ({format_count(len(file.servers), 'server')})"
        yield f"{file.place.scope}: {file.path}{count if file.exists else ' (does not exist)'}"
        if file.problem is not None:
            yield f"  PROBLEM: {file.problem}"
        for server in file.servers:
            if is_bridge_entry(client, server.value):
                served = get_served_settings(client, server.value) or "no explicit file"
                yield f"  bridge '{server.name}' serves {served}"


def _describe_client(client: Client, is_installed: bool, files: Sequence[ClientFile]) -> dict[str, object]:
    return {
        "client": client.name,
        "title": client.title,
        "found": is_installed,
        "files": [
            {
                "scope": file.place.scope,
                "path": str(file.path),
                "exists": file.exists,
                "servers": [server.name for server in file.servers],
                "bridges": [
                    {"name": server.name, "serves": get_served_settings(client, server.value)}
                    for server in file.servers
                    if is_bridge_entry(client, server.value)
                ],
                "problem": file.problem,
            }
            for file in files
        ],
    }
