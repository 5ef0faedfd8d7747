"""An entry in a client's dialect, and back: what an entry that stands there starts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mcp_bridge.clients.client import Client, Entry, Place
from mcp_bridge.contracts.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """What an entry starts: the words of the command, variables with their values or references, names handed on."""

    argv: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    names: Sequence[str] = ()


def shaped(client: Client, place: Place, entry: Entry) -> Mapping[str, Any]:
    """The value of an entry as it stands in a file of this client.

    Raises ConfigError for a path in which the client would see a reference.
    """
    return fill(client, client.shape, entry)


def fill(client: Client, shape: Mapping[str, Any], entry: Entry) -> Mapping[str, Any]:
    """A shape with an entry in its placeholders. Raises ConfigError as `shaped` does."""
    _check_plain(client, entry)
    values: dict[str, Any] = {
        "{name}": entry.name,
        "{command}": entry.command,
        "{args}": list(entry.args),
        "{argv}": [entry.command, *entry.args],
        "{env}": {name: reference(client, name) for name in entry.secrets} if client.dialect is not None else {},
        "{secrets}": list(entry.secrets),
    }
    optional = {"{env}", "{secrets}"}
    return {
        key: values.get(value, value) if isinstance(value, str) else value
        for key, value in shape.items()
        if not (isinstance(value, str) and value in optional and not values[value])
    }


def reference(client: Client, name: str) -> str:
    """A variable as this client refers to it; empty for a client that cannot."""
    return client.dialect.write.replace("{name}", name) if client.dialect is not None else ""


def refers(client: Client) -> bool:
    """Whether an entry can name the variables that the bridge needs."""
    return client.dialect is not None or "{secrets}" in client.shape.values()


def references(client: Client, value: Any) -> Sequence[str]:
    """The names of all variables that a value refers to, in the client's dialect."""
    if client.dialect is None:
        return ()
    if isinstance(value, str):
        return tuple(match["name"] for match in re.finditer(client.dialect.read, value))
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, Sequence):
        return tuple(name for item in value for name in references(client, item))
    return ()


def started(client: Client, value: Mapping[str, Any]) -> Started:
    """What an entry starts; nothing of what is not as this client has it."""
    keys = {text: key for key, text in client.shape.items() if isinstance(text, str)}
    command = value.get(keys.get("{argv}", keys.get("{command}", "")))
    argv = _words(command) if isinstance(command, list) else _words([command])
    args = value.get(keys.get("{args}", ""))
    env = value.get(keys.get("{env}", "env"), value.get("envs"))  # the latter is Goose's, for values alone
    return Started(
        argv=(*argv, *_words(args)),
        env={key: text for key, text in env.items() if isinstance(text, str)} if isinstance(env, Mapping) else {},
        names=_words(value.get(keys.get("{secrets}", ""))),
    )


def _words(value: Any) -> Sequence[str]:
    return tuple(word for word in value if isinstance(word, str)) if isinstance(value, list | tuple) else ()


def _check_plain(client: Client, entry: Entry) -> None:
    for word in (entry.command, *entry.args):
        if references(client, word):
            hint = f"{client.title} would put the value of a variable there. Use a path without it."
            raise ConfigError(f"'{word}' has something in it that reads as a reference to a variable", hint=hint)
