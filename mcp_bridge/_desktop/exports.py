"""Exports a server for other users: as a client's file with its entry, or as a link for installing it."""

from __future__ import annotations

import base64
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._desktop.client import ConfigPlace, Machine, ServerEntry
from mcp_bridge._desktop.entries import build_entry_value, get_entry_shape, render_shape
from mcp_bridge._desktop.locations import resolve_server_keys
from mcp_bridge._desktop.table import CLIENTS
from mcp_bridge._settings.documents import editor

INSPECTOR = "inspector"


def list_exportable_clients() -> Sequence[str]:
    return (*CLIENTS, INSPECTOR)


def build_client_file(name: str, entry: ServerEntry, machine: Machine) -> str:
    """Return a client's file with only this server. Raises ConfigError for an unknown client."""
    if name == INSPECTOR:
        # By default, the Inspector uses only the handshake era. It passes on only variables that are named with -e.
        server = {"type": "stdio", "command": entry.command, "args": list(entry.args), "protocolEra": "auto"}
        return json.dumps({"mcpServers": {entry.name: server}}, indent=2, ensure_ascii=False) + "\n"
    if name not in CLIENTS:
        raise ConfigError(
            f"'{name}' is not a client", where="--client", hint=f"Name one of: {', '.join(list_exportable_clients())}"
        )
    client = CLIENTS[name]
    # The file of a project is shared with other users.
    place = next((place for place in client.places if place.scope == "project"), client.places[0])
    return format_snippet(place, entry, build_entry_value(client, entry), machine, opening=place.opening)


def format_snippet(
    place: ConfigPlace, entry: ServerEntry, value: Mapping[str, Any], machine: Machine, *, opening: str = ""
) -> str:
    """Return a new file with the entry, which begins with the text `opening`; for a script, only the line to add."""
    if place.script:
        return _format_script_line(place.script, entry.name, value)
    return editor.put_entry(
        place.format, opening, resolve_server_keys(place, machine), entry.name, value, listed=place.listed
    )


def _format_script_line(beginning: Sequence[str], name: str, value: Mapping[str, Any]) -> str:
    """Return the line of a Bash script that adds an entry: `NAME --command PROGRAM --args WORD --env NAME VALUE`."""
    words = [_quote_word(word.replace("{name}", name)) for word in beginning]
    for key, option in value.items():
        options: list[tuple[str, ...]] = []
        if isinstance(option, Mapping):
            options += option.items()
        elif isinstance(option, str):
            options.append((option,))
        else:
            options += [(word,) for word in option]
        for parts in options:
            words.append(f"--{key}")
            words += map(_quote_word, parts)
    return " ".join(words) + "\n"


def _quote_word(word: str) -> str:
    """Quote a word for Bash, which has to replace the references in it."""
    if "${" in word:
        return f'"{word}"'
    return shlex.quote(word)


def list_linkable_clients() -> tuple[str, ...]:
    return tuple(client.name for client in CLIENTS.values() if client.link is not None)


def build_install_link(client_name: str, entry: ServerEntry) -> str:
    """Return the link that adds an entry to a client, with references to its secrets.

    Raises ConfigError if the client has no links, or a link cannot describe the entry.
    """
    client = CLIENTS.get(client_name)
    if client is None or client.link is None:
        hint = f"There are links for: {', '.join(list_linkable_clients())}."
        raise ConfigError(f"there are no install links for '{client_name}'", hint=hint)
    if client.link_programs and entry.command not in client.link_programs:
        programs = ", ".join(client.link_programs)
        hint = f"Its links can start only these programs: {programs}. Install it without --link."
        raise ConfigError(f"{client.title} accepts no link to '{entry.command}'", hint=hint)
    shape = get_entry_shape(client, entry)
    # The link has the name separately.
    value = render_shape(client, {key: text for key, text in shape.items() if text != "{name}"}, entry)
    parts = {
        "{name}": quote(entry.name, safe=""),
        "{command}": quote(entry.command, safe=""),
        "{args}": "".join(f"&arg={quote(word, safe='')}" for word in entry.args),
        "{secrets}": "".join(f"&env={name}" for name in entry.secrets),
        "{full}": quote(_format_compact({"name": entry.name, **value}), safe=""),
        "{base64}": quote(base64.b64encode(_format_compact(value).encode()).decode(), safe=""),
    }
    return re.sub(r"\{\w+\}", lambda match: parts[match[0]], client.link)


def _format_compact(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
