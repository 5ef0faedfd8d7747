"""Displays entries of client files, also as differences: only what is known to be harmless."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
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
_SEPARATORS = r"\s\"'{}\[\],:="
"""What separates words in all formats."""
_MARKS = re.compile(rf"(?:[\"']?{REDACTION_MARK}[\"']?[\s,:=]*){{2,}}")
_MAX_LINES = 2000
"""Lines of a change; more are not compared one by one."""


def redact_entry(client: Client, name: str, value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Replace every scalar of an entry by a mark, except the command, a bridge's arguments, the name, references to
    variables, and what the client's shape has."""
    argv = parse_entry_command(client, value).argv
    known = argv if is_bridge_command(argv) else tuple(word for word in argv[:1] if _is_plain(word))
    return {key: _redact_slot(client, name, client.shape.get(key), inner, known) for key, inner in value.items()}


def redact_command(client: Client, value: Any) -> str:
    """Return the program that an entry starts; a mark if the text may contain more than its path."""
    argv = parse_entry_command(client, value).argv if isinstance(value, Mapping) else ()
    return argv[0] if argv and _is_plain(argv[0]) else REDACTION_MARK


def render_entry_diff(
    client: Client, place: ConfigPlace, path: Path, keys: Sequence[str], name: str, texts: tuple[str, str]
) -> str:
    """Return the difference between two texts of a file that differ in the entry `name` below `keys`.

    Both are compared with the redacted entry in them, so that no spelling of a value is left.
    """
    known = {REDACTION_MARK, name, ".".join([*keys, name]), *keys, *(place.opening.replace(":", " ").split())}
    safe: list[str] = []
    for text in texts:
        safe.append(text)
        try:
            entry = select_entries(place, editor.read_data(place.format, text), keys).get(name)
            if isinstance(entry, Mapping):
                shown = redact_entry(client, name, entry)
                safe[-1] = editor.put_entry(place.format, text, keys, name, shown, listed=place.listed)
                known |= {*_list_words(shown)} | {f"{'.'.join([*keys, name])}.{key}" for key in shown}
        except ConfigError:
            return f"--- {path}\n+++ {path}\n{REDACTION_MARK}\n"
    return render_unified_diff(path, *safe, known=sorted(known))


def render_unified_diff(path: Path, old: str, new: str, *, known: Sequence[str] = ()) -> str:
    """Return a unified difference without context; empty where the texts are equal.

    A word that is not `known` is replaced by a mark: a changed line may contain another server or a comment.
    """
    if old == new:
        return ""
    before, after = _split_lines(old), _split_lines(new)
    start = _count_equal(before, after)
    end = min(_count_equal(before[::-1], after[::-1]), min(len(before), len(after)) - start)
    words = _compile_word_pattern(known)
    shown = [f"--- {path}", f"+++ {path}"]
    for removed, added in _find_changes(before[start : len(before) - end], after[start : len(after) - end]):
        ranges = [f"{start + lines.start + 1},{len(lines)}" for lines in (removed, added)]
        shown.append(f"@@ -{ranges[0]} +{ranges[1]} @@")
        shown += [f"-{_redact_line(before[start + at], words)}" for at in removed]
        shown += [f"+{_redact_line(after[start + at], words)}" for at in added]
    return "\n".join(shown) + "\n"


def _redact_slot(client: Client, name: str, slot: Any, value: Any, known: Sequence[str]) -> Any:
    """Redact one value of an entry; `slot` is its placeholder in the client's shape."""
    if slot == "{env}" and isinstance(value, Mapping):
        return {key: text if _is_reference(client, text) else _redact_all(text) for key, text in value.items()}
    if slot in ("{command}", "{args}", "{argv}"):
        return _redact_words(value, lambda word: word in known)
    if slot == "{secrets}":
        return _redact_words(value, lambda word: _VARIABLE.fullmatch(word) is not None)
    if slot == "{name}":
        return _redact_words(value, lambda word: word == name)
    return value if slot is not None and (type(value), value) == (type(slot), slot) else _redact_all(value)


def _redact_words(value: Any, is_harmless: Callable[[str], bool]) -> Any:
    if isinstance(value, list):
        return [_redact_words(item, is_harmless) if isinstance(item, str) else _redact_all(item) for item in value]
    return value if isinstance(value, str) and is_harmless(value) else _redact_all(value)


def _redact_all(value: Any) -> Any:
    """The same keys with marks for all scalars."""
    if isinstance(value, Mapping):
        return {key: _redact_all(inner) for key, inner in value.items()}
    return [_redact_all(inner) for inner in value] if isinstance(value, list) else REDACTION_MARK


def _is_reference(client: Client, text: Any) -> bool:
    """Whether a text is a reference and nothing else; a default in it would be a value."""
    found = (
        re.fullmatch(client.reference_syntax.pattern, text)
        if client.reference_syntax is not None and isinstance(text, str)
        else None
    )
    return found is not None and not found.groupdict().get("default")


def _is_plain(word: str) -> bool:
    return not re.search(r"[\s=]", word)


def _list_words(value: Any) -> Iterator[str]:
    """The keys and the scalars of a value, as a file spells them."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from (str(key), *_list_words(inner))
    elif isinstance(value, list):
        for inner in value:
            yield from _list_words(inner)
    elif value is None or isinstance(value, bool):
        yield {None: "null", True: "true", False: "false"}[value]
    else:
        yield str(value)


def _split_lines(text: str) -> list[str]:
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []


def _count_equal(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines both begin with."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (line, its) in enumerate(pairs) if line != its), min(len(one), len(other)))


def _find_changes(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[range, range]]:
    if len(old) + len(new) > _MAX_LINES:
        yield range(len(old)), range(len(new))
        return
    for action, start, end, new_start, new_end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if action != "equal":
            yield range(start, end), range(new_start, new_end)


def _compile_word_pattern(known: Sequence[str]) -> re.Pattern[str]:
    """Match each word of a line; the group `known` matches words that may be shown, in every spelling of JSON."""
    spelled = {form for word in known for form in (word, json.dumps(word)[1:-1], json.dumps(word, ensure_ascii=False))}
    forms = sorted({form.strip('"') for form in spelled} - {""}, key=len, reverse=True)
    either = "|".join(map(re.escape, forms)) or r"(?!)"
    return re.compile(rf"(?<![^{_SEPARATORS}])(?P<known>{either})(?![^{_SEPARATORS}])|[^{_SEPARATORS}]+")


def _redact_line(line: str, words: re.Pattern[str]) -> str:
    def redact_word(found: re.Match[str]) -> str:
        word = found.group()
        return word if found["known"] is not None or not any(map(str.isalnum, word)) else REDACTION_MARK

    return _MARKS.sub(REDACTION_MARK, words.sub(redact_word, line))
