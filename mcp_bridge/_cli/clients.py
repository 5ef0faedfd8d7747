"""Finds and lists the MCP clients on this machine, their settings files, and the bridges in them."""

from __future__ import annotations

import difflib
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mcp_bridge._app.server_name import DEFAULT_FILES
from mcp_bridge._cli.output import format_count, print_lines, report, write_json
from mcp_bridge._cli.server_address import is_target
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._desktop.client import Client, ConfigPlace, InstalledServer, Machine
from mcp_bridge._desktop.locations import detect_machine, is_client_installed, resolve_place_path
from mcp_bridge._desktop.servers import get_served_settings, is_bridge_entry, read_servers
from mcp_bridge._desktop.table import CLIENTS


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFile:
    """A settings file of a client: its servers, those that are bridges, or the error if it cannot be read."""

    place: ConfigPlace
    path: Path
    exists: bool
    servers: Sequence[InstalledServer] = ()
    bridges: Sequence[InstalledServer] = ()
    error: ConfigError | None = None

    @property
    def problem(self) -> str | None:
        """The error as text, without its path and its hint."""
        if self.error is None:
            return None
        problem = str(ConfigError(self.error.problem, where=self.error.where))
        return problem if self.error.line is None else f"line {self.error.line}: {problem}"


def find_client(name: str) -> Client:
    """Return the client with a name. Raises ConfigError with similar names."""
    client = CLIENTS.get(name.lower())
    if client is not None:
        return client
    names = suggest_clients(name)
    question = ""
    if names:
        question = f"Did you mean {' or '.join(names)}? "
    elif is_target(name):
        question = "Put the client before the file. "
    raise ConfigError(f"unknown client '{name}'", hint=f"{question}Known clients: {', '.join(CLIENTS)}.")


def suggest_clients(word: str) -> Sequence[str]:
    """Suggest names of clients by program, title or first part of the name, otherwise by similarity."""
    word = word.lower()
    names: list[str] = []
    for client in CLIENTS.values():
        if word in (client.title.lower(), *client.programs) or client.name.startswith(f"{word}-"):
            names.append(client.name)
    if not names:
        names = difflib.get_close_matches(word, CLIENTS, n=3, cutoff=0.5)
        # Shorter words are in too many names.
        if len(word) > 2:
            names += [name for name in CLIENTS if word in name and name not in names]
    return names


def list_clients(*, as_json: bool) -> None:
    """List the clients with an installation or a file, or all of them with --json, and what to type next."""
    machine = detect_machine()
    rows: list[dict[str, object]] = []
    files_by_client: dict[str, Sequence[ClientFile]] = {}
    missing: list[str] = []
    for client in CLIENTS.values():
        is_installed = is_client_installed(client, machine)
        files = [read_client_file(client, place, machine) for place in client.places]
        if as_json:
            rows.append(_describe_client(client, is_installed, files))
        elif is_installed or any(file.exists for file in files):
            files_by_client[client.name] = files
            title = f"{client.title} ({client.name})"
            print_lines(title if is_installed else f"{title}, not installed, but it has a file")
            for line in _describe_files(client, files):
                print_lines(f"  {line}")
        else:
            missing.append(client.name)
    if as_json:
        write_json(rows)
        return
    if missing:
        print_lines(f"not found: {', '.join(missing)}")
    report("", *_list_next_steps(files_by_client))


def read_client_file(client: Client, place: ConfigPlace, machine: Machine) -> ClientFile:
    path = resolve_place_path(place, machine)
    exists = os.path.isfile(path) or os.path.islink(path)
    try:
        servers = read_servers(client, place, machine)
    except ConfigError as error:
        # In a folder without permissions, `isfile` is false even for an existing file.
        return ClientFile(place=place, path=path, exists=True, error=error)
    bridges = [server for server in servers if is_bridge_entry(client, server.value)]
    return ClientFile(place=place, path=path, exists=exists, servers=servers, bridges=bridges)


def _describe_files(client: Client, files: Sequence[ClientFile]) -> Iterator[str]:
    """Yield the lines of the files that exist, or of the first one, which `install` would create."""
    for file in [file for file in files if file.exists] or files[:1]:
        text = f"{file.place.scope}: {file.path}"
        if not file.exists:
            text += " (does not exist yet)"
        elif file.error is None:
            text += f" ({format_count(len(file.servers), 'server')}"
            text += ")" if file.bridges else ", no bridge)"
        yield text
        if file.problem is not None:
            yield f"  PROBLEM: {file.problem}"
        for server in file.bridges:
            settings = get_served_settings(client, server.value) or "no explicit file"
            yield f"  bridge '{server.name}' serves {settings}"


def _list_next_steps(files_by_client: Mapping[str, Sequence[ClientFile]]) -> Iterator[str]:
    """Yield commands about these clients, each after its purpose."""
    target = "FILE"
    for name in DEFAULT_FILES:
        if os.path.isfile(name):
            target = name
            break
    clients_without_bridge: list[str] = []
    installed_bridges: list[tuple[str, str]] = []
    for client_name, files in files_by_client.items():
        bridges = [(client_name, server.name) for file in files for server in file.bridges]
        installed_bridges += bridges
        if not bridges:
            clients_without_bridge.append(client_name)
    if not files_by_client:
        yield f"To print an entry for a client: mcp-bridge install CLIENT {target} --print"
        return
    example = next(iter([*clients_without_bridge, *files_by_client]))
    yield f"To add tools to a client: mcp-bridge install {example} {target}"
    if installed_bridges:
        yield "To check every bridge in a client: mcp-bridge doctor all"
        yield f"To remove one: {shlex.join(['mcp-bridge', 'uninstall', *installed_bridges[0]])}"


def _describe_client(client: Client, is_installed: bool, files: Sequence[ClientFile]) -> dict[str, object]:
    rows: list[dict[str, object]] = []
    for file in files:
        bridges: list[dict[str, object]] = []
        for server in file.bridges:
            bridges.append({"name": server.name, "serves": get_served_settings(client, server.value)})
        row = {"scope": file.place.scope, "path": str(file.path), "exists": file.exists}
        row["servers"] = [server.name for server in file.servers]
        rows.append(row | {"bridges": bridges, "problem": file.problem})
    return {"client": client.name, "title": client.title, "found": is_installed, "files": rows}
