"""What may be shown of an entry that stands in a client's file: what is known to be harmless, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mcp_bridge.clients.client import Client, Place
from mcp_bridge.clients.difference import MARK, unified
from mcp_bridge.clients.reading import names_bridge
from mcp_bridge.clients.shaping import started
from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.documents import editor

_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")


def masked(client: Client, name: str, value: Mapping[str, Any]) -> Mapping[str, Any]:
    """An entry with a mark for every scalar but the command, a bridge's arguments, the name, references to variables
    and what the client's shape has."""
    argv = started(client, value).argv
    known = argv if names_bridge(argv) else tuple(word for word in argv[:1] if _is_plain(word))
    return {key: _shown(client, name, client.shape.get(key), inner, known) for key, inner in value.items()}


def command_of(client: Client, value: Any) -> str:
    """The program that an entry starts; a mark for one that may have more in it than its path."""
    argv = started(client, value).argv if isinstance(value, Mapping) else ()
    return argv[0] if argv and _is_plain(argv[0]) else MARK


def difference(client: Client, place: Place, path: Path, keys: Sequence[str], name: str, texts: tuple[str, str]) -> str:
    """How a file changes from one text to another where these differ in the entry `name` below `keys`.

    Both are compared as they would be with the masked entry, so that no spelling of a value is left in them.
    """
    known = {MARK, name, ".".join([*keys, name]), *keys, *(place.opening.replace(":", " ").split())}
    safe: list[str] = []
    for text in texts:
        safe.append(text)
        try:
            entry = _entry(place, text, keys, name)
            if isinstance(entry, Mapping):
                shown = masked(client, name, entry)
                safe[-1] = editor.put(place.format, text, keys, name, shown, listed=place.listed).text
                known |= {*_words(shown)} | {f"{'.'.join([*keys, name])}.{key}" for key in shown}
        except ConfigError:
            return f"--- {path}\n+++ {path}\n{MARK}\n"
    return unified(path, *safe, known=sorted(known))


def _entry(place: Place, text: str, keys: Sequence[str], name: str) -> Any:
    data = editor.read(place.format, text)
    for key in keys:
        data = data.get(key) if isinstance(data, Mapping) else None
    if place.listed:
        items = data if isinstance(data, list) else []
        return next((item for item in items if isinstance(item, Mapping) and item.get("name") == name), None)
    return data.get(name) if isinstance(data, Mapping) else None


def _shown(client: Client, name: str, slot: Any, value: Any, known: Sequence[str]) -> Any:
    """One value of an entry; `slot` is what the client's shape has in its place."""
    if slot == "{env}" and isinstance(value, Mapping):
        return {key: text if _is_reference(client, text) else _hidden(text) for key, text in value.items()}
    if slot in ("{command}", "{args}", "{argv}"):
        return _kept(value, lambda word: word in known)
    if slot == "{secrets}":
        return _kept(value, lambda word: _VARIABLE.fullmatch(word) is not None)
    if slot == "{name}":
        return _kept(value, lambda word: word == name)
    return value if slot is not None and (type(value), value) == (type(slot), slot) else _hidden(value)


def _kept(value: Any, is_harmless: Any) -> Any:
    """The words that are harmless, a mark for the others."""
    if isinstance(value, list):
        return [_kept(item, is_harmless) if isinstance(item, str) else _hidden(item) for item in value]
    return value if isinstance(value, str) and is_harmless(value) else _hidden(value)


def _hidden(value: Any) -> Any:
    """The same keys, and marks for all that they hold."""
    if isinstance(value, Mapping):
        return {key: _hidden(inner) for key, inner in value.items()}
    return [_hidden(inner) for inner in value] if isinstance(value, list) else MARK


def _is_reference(client: Client, text: Any) -> bool:
    """A reference and nothing else; a default in it would be a value."""
    found = re.fullmatch(client.dialect.read, text) if client.dialect is not None and isinstance(text, str) else None
    return found is not None and not found.groupdict().get("default")


def _is_plain(word: str) -> bool:
    return not re.search(r"[\s=]", word)


def _words(value: Any) -> Iterator[str]:
    """The keys and the scalars of a value, as a file spells them."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from (str(key), *_words(inner))
    elif isinstance(value, list):
        for inner in value:
            yield from _words(inner)
    elif value is None or isinstance(value, bool):
        yield {None: "null", True: "true", False: "false"}[value]
    else:
        yield str(value)
