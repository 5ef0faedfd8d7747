"""Addresses that install a server into a client when they are opened."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from mcp_bridge.clients.client import Client, Entry
from mcp_bridge.clients.shaping import fill
from mcp_bridge.clients.table import CLIENTS
from mcp_bridge.contracts.errors import ConfigError


def linkable() -> tuple[str, ...]:
    """The names of the clients that have such addresses."""
    return tuple(client.name for client in CLIENTS.values() if client.link is not None)


def link(client_name: str, entry: Entry) -> str:
    """The address that puts an entry into a client: references to its secrets in it, no values.

    Raises ConfigError for a client that has none, and for an entry that an address cannot tell of.
    """
    client = CLIENTS.get(client_name)
    if client is None or client.link is None:
        hint = f"There are links for: {', '.join(linkable())}."
        raise ConfigError(f"there are no install links for '{client_name}'", hint=hint)
    _check(client, entry)
    value = fill(client, {key: text for key, text in client.shape.items() if text != "{name}"}, entry)
    parts = {
        "{name}": quote(entry.name, safe=""),
        "{command}": quote(entry.command, safe=""),
        "{args}": "".join(f"&arg={quote(word, safe='')}" for word in entry.args),
        "{secrets}": "".join(f"&env={name}" for name in entry.secrets),
        "{full}": quote(_compact({"name": entry.name, **value}), safe=""),
        "{base64}": quote(base64.b64encode(_compact(value).encode()).decode(), safe=""),
    }
    return re.sub(r"\{\w+\}", lambda match: parts[match[0]], client.link)


def _check(client: Client, entry: Entry) -> None:
    if client.link_programs and entry.command not in client.link_programs:
        takes = ", ".join(client.link_programs)
        hint = f"It takes {takes} alone. Install it without --link."
        raise ConfigError(f"{client.title} takes no link to '{entry.command}'", hint=hint)


def _compact(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
