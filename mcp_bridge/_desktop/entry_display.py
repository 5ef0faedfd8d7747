"""Renders entries of client files without possible secrets, as a whole or as a difference.

An entry can have a secret in any value. So every value is replaced by a mark, unless it is known to be harmless.
"""

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
"""Replaces values that are not shown."""

_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")


def redact_entry(client: Client, name: str, value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Replace the values of an entry by marks.

    The name, the command, the arguments of a bridge, references to variables, and the fixed values of
    `Client.shape` are shown. The command of another program is shown only if it is nothing but a path.
    """
    argv = parse_entry_command(client, value).argv
    if is_bridge_command(argv):
        plain_words = argv
    else:
        plain_words = [word for word in argv[:1] if _is_plain(word)]
    return {key: _redact_value(client, name, client.shape.get(key), inner, plain_words) for key, inner in value.items()}


def redact_command(client: Client, value: Any) -> str:
    """Return the program of an entry, or a mark if the text may contain more than its path."""
    if isinstance(value, Mapping):
        argv = parse_entry_command(client, value).argv
        if argv and _is_plain(argv[0]):
            return argv[0]
    return REDACTION_MARK


def render_entry_diff(
    client: Client, place: ConfigPlace, path: Path, keys: Sequence[str], name: str, texts: tuple[str, str]
) -> str:
    """Return the difference between an entry in two texts of a file; empty if there is none.

    The entry has the name `name` below `keys`. It is redacted, and shown as if the file had no other content.
    """
    before, after = (_render_entry_alone(client, place, keys, name, text) for text in texts)
    lines = difflib.unified_diff(before, after, str(path), str(path), lineterm="")
    return "".join(f"{line}\n" for line in lines if not line.startswith("@@"))


def _render_entry_alone(client: Client, place: ConfigPlace, keys: Sequence[str], name: str, text: str) -> list[str]:
    """Return the lines of a file with only the redacted entry; a mark if the text cannot be read."""
    try:
        entry = select_entries(place, editor.read_data(place.format, text), keys).get(name)
        if not isinstance(entry, Mapping):
            return []
        redacted_entry = redact_entry(client, name, entry)
        return editor.put_entry(place.format, "", keys, name, redacted_entry, listed=place.listed).splitlines()
    except ConfigError:
        return [REDACTION_MARK]


def _redact_value(client: Client, name: str, template: Any, value: Any, plain_words: Sequence[str]) -> Any:
    """Redact one value of an entry.

    `template` is the value under its key in `Client.shape`, which explains the placeholders.
    """
    if template == "{env}" and isinstance(value, Mapping):
        variables: dict[str, Any] = {}
        for key, text in value.items():
            variables[key] = text if _is_reference(client, text) else _redact_all(text)
        return variables
    if template in ("{command}", "{args}", "{argv}"):
        return _redact_words(value, lambda word: word in plain_words)
    if template == "{secrets}":
        return _redact_words(value, lambda word: _VARIABLE.fullmatch(word) is not None)
    if template == "{name}":
        return _redact_words(value, lambda word: word == name)
    # The types are compared too, because 1 and True are equal.
    if template is not None and type(value) is type(template) and value == template:
        return value
    return _redact_all(value)


def _redact_words(value: Any, is_harmless: Callable[[str], bool]) -> Any:
    if isinstance(value, list):
        words: list[Any] = []
        for item in value:
            # Lists in the list are redacted as a whole.
            words.append(_redact_words(item, is_harmless) if isinstance(item, str) else _redact_all(item))
        return words
    if isinstance(value, str) and is_harmless(value):
        return value
    return _redact_all(value)


def _redact_all(value: Any) -> Any:
    """Replace all scalars by marks, and keep the keys."""
    if isinstance(value, Mapping):
        return {key: _redact_all(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_redact_all(inner) for inner in value]
    return REDACTION_MARK


def _is_reference(client: Client, text: Any) -> bool:
    """Return whether a text is a reference without a default: a default could be a secret."""
    if client.reference_syntax is None or not isinstance(text, str):
        return False
    reference = re.fullmatch(client.reference_syntax.pattern, text)
    return reference is not None and not reference.groupdict().get("default")


def _is_plain(word: str) -> bool:
    """Return whether a command is nothing but a path: it has no arguments and no variables."""
    return not re.search(r"[\s=]", word)
