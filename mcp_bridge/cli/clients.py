"""`mcp-bridge clients`: which MCP clients are here, their files, and the bridges in them."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mcp_bridge.cli.exits import counted, say
from mcp_bridge.clients.client import Client, Installed, Machine, Place
from mcp_bridge.clients.locating import found, here, path_of
from mcp_bridge.clients.reading import is_bridge, of_place, served
from mcp_bridge.clients.table import CLIENTS
from mcp_bridge.contracts.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One file of a client: what is in it, or why that cannot be said."""

    place: Place
    path: Path
    there: bool
    servers: Sequence[Installed] = ()
    problem: str | None = None


def client_named(name: str) -> Client:
    """The client of that name. Raises ConfigError that names the nearest ones."""
    client = CLIENTS.get(name.lower())
    if client is not None:
        return client
    near = nearest(name)
    meant = f"Did you mean {' or '.join(near)}? " if near else ""
    hint = f"{meant}There are: {', '.join(CLIENTS)}."
    raise ConfigError(f"there is no client '{name}'", hint=hint)


def nearest(word: str) -> Sequence[str]:
    """The names of the clients that a word can be meant for: by program, title or beginning, else by likeness."""
    word = word.lower()
    meant = [
        client.name
        for client in CLIENTS.values()
        if word in (client.title.lower(), *client.programs) or client.name.startswith(f"{word}-")
    ]
    alike = difflib.get_close_matches(word, CLIENTS, n=3, cutoff=0.5)
    return meant or [*alike, *(name for name in CLIENTS if len(word) > 2 and word in name and name not in alike)]


def show(*, as_json: bool) -> None:
    """The clients that are here, with their files, for a person (stderr) or as JSON (stdout)."""
    machine = here()
    rows = [(client, found(client, machine), files(client, machine)) for client in CLIENTS.values()]
    if as_json:
        from mcp_bridge.cli.showing import data

        data([_row(client, present, of_client) for client, present, of_client in rows])
        return
    shown = [row for row in rows if row[1] or any(file.there for file in row[2])]
    for client, present, of_client in shown:
        say(f"{client.title} ({client.name}){'' if present else ', not found here, but it has a file'}")
        for line in _lines(client, of_client):
            say(f"  {line}")
    missing = [client.name for client, *_ in rows if client not in [row[0] for row in shown]]
    if missing:
        say(f"not found: {', '.join(missing)}")


def files(client: Client, machine: Machine) -> Sequence[File]:
    """All files of a client; one that cannot be read keeps nobody from the others."""
    return [_file(client, place, machine) for place in client.places]


def _file(client: Client, place: Place, machine: Machine) -> File:
    path = path_of(place, machine)
    there = os.path.isfile(path) or os.path.islink(path)
    try:
        return File(place=place, path=path, there=there, servers=of_place(client, place, machine))
    except ConfigError as error:
        line = f"line {error.line}: " if error.line is not None else ""
        problem = line + str(ConfigError(error.problem, where=error.where))
        return File(place=place, path=path, there=True, problem=problem)


def _lines(client: Client, of_client: Sequence[File]) -> Iterator[str]:
    for file in of_client:
        yield f"{file.place.scope}: {file.path}{_remark(file)}"
        if file.problem is not None:
            yield f"  PROBLEM: {file.problem}"
        for server in file.servers:
            if is_bridge(client, server.value):
                yield f"  bridge '{server.name}' serves {served(client, server.value) or 'nothing that is named'}"


def _remark(file: File) -> str:
    if not file.there:
        return " (not there)"
    return "" if file.problem is not None else f" ({counted(len(file.servers), 'server')})"


def _row(client: Client, present: bool, of_client: Sequence[File]) -> dict[str, object]:
    return {
        "client": client.name,
        "title": client.title,
        "found": present,
        "files": [
            {
                "scope": file.place.scope,
                "path": str(file.path),
                "exists": file.there,
                "servers": [server.name for server in file.servers],
                "bridges": [
                    {"name": server.name, "serves": served(client, server.value)}
                    for server in file.servers
                    if is_bridge(client, server.value)
                ],
                "problem": file.problem,
            }
            for file in of_client
        ],
    }
