"""A client's file with one entry in it, to be copied by hand or read by the Inspector."""

from __future__ import annotations

import json
from collections.abc import Sequence

from mcp_bridge.clients.client import Client, Entry, Machine, Place
from mcp_bridge.clients.locating import within
from mcp_bridge.clients.shaping import shaped
from mcp_bridge.clients.table import CLIENTS
from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.documents import editor

INSPECTOR = "inspector"
DEFAULT = "claude-code"
"""Whose form most clients understand, and whose `type` some ask for."""


def names() -> Sequence[str]:
    """Whose files can be made."""
    return (*CLIENTS, INSPECTOR)


def client_file(name: str, entry: Entry, machine: Machine) -> str:
    """The text of a client's file that has this server alone. Raises ConfigError for a client that is not known."""
    if name == INSPECTOR:
        return _inspector(entry)
    if name not in CLIENTS:
        raise ConfigError(f"'{name}' is no client", where="--client", hint=f"Name one of: {', '.join(names())}")
    client = CLIENTS[name]
    place = _place(client)
    value = shaped(client, place, entry)
    keys = within(place, machine)
    made = editor.put(place.format, place.opening, keys, entry.name, value, listed=place.listed)
    return made.text


def _place(client: Client) -> Place:
    """The file of a project where the client has one: that is the one to be handed on."""
    return next((place for place in client.places if place.scope == "project"), client.places[0])


def _inspector(entry: Entry) -> str:
    # Its default is the handshake era alone; it hands on no variables but those it is told with -e.
    server = {"type": "stdio", "command": entry.command, "args": list(entry.args), "protocolEra": "auto"}
    return json.dumps({"mcpServers": {entry.name: server}}, indent=2, ensure_ascii=False) + "\n"
