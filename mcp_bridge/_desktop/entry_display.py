"""Displays the harmless parts of entries of client files, also as differences."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._desktop.client import Client, ConfigPlace
from mcp_bridge._desktop.entries import parse_entry_command
from mcp_bridge._desktop.servers import is_bridge_command, select_entries
from mcp_bridge._settings.documents import editor

REDACTION_MARK = "…"
"""Replaces what is not shown, because it may be secret or belongs to another server."""

_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")


def redact_entry(client: Client, name: str, value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Replace every scalar of an entry by a mark, except the command, a bridge's arguments, the name, references to
    variables, and what the client's shape has."""
    argv = parse_entry_command(client, value).argv
    plain_words = argv if is_bridge_command(argv) else tuple(word for word in argv[:1] if _is_plain(word))
    return {key: _redact_slot(client, name, client.shape.get(key), inner, plain_words) for key, inner in value.items()}


def redact_command(client: Client, value: Any) -> str:
    """Return the program of an entry, or a mark if the text may contain more than its path."""
    argv = parse_entry_command(client, value).argv if isinstance(value, Mapping) else ()
    return argv[0] if argv and _is_plain(argv[0]) else REDACTION_MARK


def render_entry_diff(
    client: Client, place: ConfigPlace, path: Path, keys: Sequence[str], name: str, texts: tuple[str, str]
) -> str:
    """Return the difference between the redacted entry `name` below `keys` in two texts of a file; empty if equal.

    Each is shown as a file that has nothing else, so that nothing of the file's other content is shown.
    """
    before, after = (_render_entry_alone(client, place, keys, name, text) for text in texts)
    lines = difflib.unified_diff(before, after, str(path), str(path), lineterm="")
    return "".join(f"{line}\n" for line in lines if not line.startswith("@@"))


def _render_entry_alone(client: Client, place: ConfigPlace, keys: Sequence[str], name: str, text: str) -> list[str]:
    """Return the lines of a file with the redacted entry alone; a mark if it cannot be read."""
    try:
        entry = select_entries(place, editor.read_data(place.format, text), keys).get(name)
        if not isinstance(entry, Mapping):
            return []
        redacted_entry = redact_entry(client, name, entry)
        return editor.put_entry(place.format, "", keys, name, redacted_entry, listed=place.listed).splitlines()
    except ConfigError:
        return [REDACTION_MARK]


def _redact_slot(client: Client, name: str, slot: Any, value: Any, plain_words: Sequence[str]) -> Any:
    """Redact one value of an entry; `slot` is its placeholder in the client's shape."""
    if slot == "{env}" and isinstance(value, Mapping):
        return {key: text if _is_reference(client, text) else _redact_all(text) for key, text in value.items()}
    if slot in ("{command}", "{args}", "{argv}"):
        return _redact_words(value, lambda word: word in plain_words)
    if slot == "{secrets}":
        return _redact_words(value, lambda word: _VARIABLE.fullmatch(word) is not None)
    if slot == "{name}":
        return _redact_words(value, lambda word: word == name)
    if slot is not None and (type(value), value) == (type(slot), slot):
        return value
    return _redact_all(value)


def _redact_words(value: Any, is_harmless: Callable[[str], bool]) -> Any:
    if isinstance(value, list):
        return [_redact_words(item, is_harmless) if isinstance(item, str) else _redact_all(item) for item in value]
    if isinstance(value, str) and is_harmless(value):
        return value
    return _redact_all(value)


def _redact_all(value: Any) -> Any:
    """Replace all scalars by marks, and keep the keys."""
    if isinstance(value, Mapping):
        return {key: _redact_all(inner) for key, inner in value.items()}
    return [_redact_all(inner) for inner in value] if isinstance(value, list) else REDACTION_MARK


def _is_reference(client: Client, text: Any) -> bool:
    """Whether a text is only a reference. A default in it would be a value."""
    if client.reference_syntax is None or not isinstance(text, str):
        return False
    reference = re.fullmatch(client.reference_syntax.pattern, text)
    return reference is not None and not reference.groupdict().get("default")


def _is_plain(word: str) -> bool:
    return not re.search(r"[\s=]", word)
