"""Reads the lists of servers in the files of MCP clients, as sources of type `mcp`.

Most clients list servers under `mcpServers`, VS Code under `servers`, Zed under `context_servers`, Codex under
`mcp_servers`, opencode under `mcp`, Goose under `extensions` and Amp under `amp.mcpServers`. A settings file can
contain such a list, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

from mcp_bridge._settings.client_entries import (
    find_project_folder,
    is_sandbox,
    is_server_entry,
    is_switched_off,
    list_unread_keys,
    normalize_entry,
    translate_references,
)
from mcp_bridge._settings.documents.document import Document
from mcp_bridge._settings.documents.positions import KeyPath

SERVER_LISTS = ("mcpServers", "servers", "context_servers", "mcp_servers")
NESTED_LISTS: tuple[tuple[str, ...], ...] = (("mcp", "servers"), ("mcp",), ("extensions",), ("amp.mcpServers",))
"""Further lists. Most of their keys are common words, so they count only in files without `sources`, and only if they
have an entry of a server."""
_LISTS_WITH_SETTINGS = ("mcpServers", "servers")
"""The lists next to which a file may have settings of the bridge. Next to others, it has settings of the client."""
_OPTIONS = (
    "command", "args", "env", "cwd", "url", "headers", "start_timeout", "transport", "auth", "changes",
)  # fmt: skip
_INNER_REFERENCE_FOLDERS = frozenset({".gemini", ".copilot", ".qwen"})
"""The folders of clients in whose files `$NAME` may be a part of a text."""


def has_servers(data: Mapping[str, Any]) -> bool:
    """Return whether a file has a list of servers in the form of a client."""
    return next(_find_lists(data), None) is not None


def prepare_servers(document: Document, settings: Set[str]) -> Document:
    """Return only the servers of a client's file, in one form. `settings` are the keys of settings files.

    A settings file, which has `sources`, keeps its other keys.
    """
    data = document.data
    lists = dict(_find_lists(data))
    if not lists:
        return document
    if "sources" not in data:
        if any(key in data for key in _LISTS_WITH_SETTINGS):
            data = {key: value for key, value in data.items() if key in settings}
        else:
            data = {}
        # Some clients have a list of files there.
        if not isinstance(data.get("instructions", ""), str):
            del data["instructions"]
    data = {key: value for key, value in data.items() if key != "inputs"}
    folder = find_project_folder(document.path)
    has_inner_references = Path(document.path).absolute().parent.name in _INNER_REFERENCE_FOLDERS
    for (key, *below), servers in lists.items():
        entries = {}
        for name, entry in servers.items():
            if not isinstance(entry, Mapping):
                entries[name] = entry
            elif not is_switched_off(entry):
                translated = translate_references(entry, folder, has_inner_references=has_inner_references)
                entries[name] = normalize_entry(translated)
        data[key] = {below[0]: entries} if below else entries
    return replace(document, data=data)


def list_entry_places(data: Mapping[str, Any]) -> Iterator[KeyPath]:
    """Yield the places of all servers, each of which can have a problem that does not concern the others."""
    for where, servers in _find_lists(data):
        yield from ((*where, name) for name in servers)
    sources = data.get("sources")
    for index, source in enumerate(sources if isinstance(sources, list) else ()):
        if isinstance(source, Mapping) and source.get("type") == "mcp":
            yield ("sources", index)


def read_servers(data: Mapping[str, Any], document: Document, common: Set[str]) -> Iterator[dict[str, Any]]:
    """Yield a source for each server. `common` are the keys of every source.

    Keys that only clients use are ignored, with a note if they change what the server gets.
    """
    from mcp_bridge._settings.model import Origin

    for where, servers in _find_lists(data):
        for name, value in servers.items():
            place = (*where, name)
            entry = value
            problem = document.entry_problems.get(place)
            if not is_server_entry(value):
                hint = "A server needs 'command' or 'url'. One that an extension of a client starts cannot be served."
                problem = document.make_error(place, "it has neither a command nor a URL", hint)
                entry = {}
            options = {key: value for key, value in entry.items() if key in _OPTIONS}
            # Clients write other values there, too, which `list_unread_keys` reports.
            if options.get("auth") != "oauth":
                options.pop("auth", None)
            if "sandbox" in entry and is_sandbox(entry["sandbox"]):
                options["sandbox"] = entry["sandbox"]
            common_values = {key: value for key, value in entry.items() if key in common - {"type", "name"}}
            notes = tuple(list_unread_keys(entry))
            origin = Origin(document=document, where=place, problem=problem, is_alone=True, notes=notes)
            yield {**common_values, "type": "mcp", "name": str(name), "options": options, "origin": origin}


def remove_servers(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data without its lists of servers."""
    lists = {where[0] for where, _ in _find_lists(data)}
    return {key: value for key, value in data.items() if key not in lists}


def _find_lists(data: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Yield the place of each list of servers, and its entries by name."""
    servers: Any
    for key in SERVER_LISTS:
        servers = data.get(key, ())
        if servers is None:
            yield (key,), {}
        elif isinstance(servers, list):
            # Continue has a list of entries, which contain their names.
            entries = [server for server in servers if isinstance(server, Mapping) and "name" in server]
            yield (key,), {server["name"]: server for server in entries}
        elif isinstance(servers, Mapping):
            yield (key,), servers
    if "sources" in data:
        return
    for where in NESTED_LISTS:
        servers = data
        for step in where:
            servers = servers.get(step) if isinstance(servers, Mapping) else None
        if isinstance(servers, Mapping) and any(map(is_server_entry, servers.values())):
            yield where, {name: entry for name, entry in servers.items() if isinstance(entry, Mapping)}
