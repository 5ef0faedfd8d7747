"""Builds the text of a question about a call, which shows every argument with its length.

The caller of a tool chooses the names, the order and the lengths of arguments, and must not be able to hide an argument
behind others. So the shortest values come first, only the longest are truncated, and invisible characters are escaped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

MAX_SHOWN = 10_000
"""The maximum number of characters of a prompt, or of the arguments, that a question shows."""
_MAX_NODES = 2_000
"""The maximum number of values and containers in the arguments that are visited."""
_MIN_VALUE = 40
"""The minimum number of characters of a truncated value. If there is no room for them, the value is left out."""
_TRUNCATION_MARK = " … truncated"
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Characters that Python counts as printable, because they are letters, marks or symbols in Unicode, but that have no
shape (Default_Ignorable, U+2800)."""


class ShownText(NamedTuple):
    """A text for the user who decides. `is_whole` is whether nothing is left out."""

    text: str
    is_whole: bool


def escape_invisible(text: str) -> str:
    """Write invisible characters, and those for the direction of text, as JSON escapes."""
    if text.isascii() and text.isprintable():
        return text
    characters: list[str] = []
    for char in text:
        if char == "\n" or (char.isprintable() and _INVISIBLE.fullmatch(char) is None):
            characters.append(char)
        else:
            characters.append(json.dumps(char)[1:-1])
    return "".join(characters)


def show_prompt(prompt: str) -> ShownText:
    """Return a prompt with invisible characters escaped, truncated to MAX_SHOWN characters."""
    is_whole = len(prompt) <= MAX_SHOWN
    if not is_whole:
        prompt = f"{prompt[:MAX_SHOWN]} … and {len(prompt) - MAX_SHOWN:,} more characters"
    return ShownText(escape_invisible(prompt), is_whole)


def show_arguments(arguments: Any) -> ShownText:
    """Return a line for each value in the arguments, shortest first: its path, its length and the value as JSON.

    The remaining room is divided equally among the remaining values, so what short values leave is for the long ones.
    """
    values, is_whole = _flatten_arguments(arguments)
    values.sort(key=lambda value: len(value.text))
    room = MAX_SHOWN
    lines: list[str] = []
    for index, value in enumerate(values):
        head = f"- {value.path} (length {value.length:,}): "
        share = max(room // (len(values) - index), len(head) + _MIN_VALUE)
        line = head + value.text
        is_truncated = len(line) > share
        if is_truncated:
            length = max(share - len(head) - len(_TRUNCATION_MARK), 0)
            line = head + value.text[:length] + _TRUNCATION_MARK
        if len(line) > room:
            break
        if is_truncated:
            is_whole = False
        lines.append(line)
        room -= len(line) + 1
    if len(lines) < len(values):
        is_whole = False
    if not is_whole:
        lines.append("- … (not everything is shown)")
    return ShownText("\n".join(lines), is_whole)


class _Value(NamedTuple):
    """A value in the arguments: its path, its original length, and its text, which may end earlier."""

    path: str
    length: int
    text: str


def _flatten_arguments(arguments: Any) -> tuple[list[_Value], bool]:
    """Return the values in the arguments, in their order, and whether these are all.

    Instead of an object or an array, its members are returned, unless it is empty.
    """
    values: list[_Value] = []
    waiting: list[tuple[str, Any]] = [("", arguments)]
    for _ in range(_MAX_NODES):
        if not waiting:
            break
        path, value = waiting.pop()
        # The members are reversed, because the last one is visited first.
        if isinstance(value, Mapping) and value:
            waiting += reversed([(_extend_path(path, key), item) for key, item in value.items()])
        elif isinstance(value, list | tuple) and value:
            waiting += reversed([(f"{path}[{index}]", item) for index, item in enumerate(value)])
        else:
            values.append(_describe_value(path or "value", value))
    return values, not waiting


def _describe_value(path: str, value: Any) -> _Value:
    """Return a value as JSON. Only the beginning of a text is converted, because no more is ever shown."""
    if isinstance(value, str):
        text = json.dumps(value[: MAX_SHOWN + 1], ensure_ascii=False)
        return _Value(path, len(value), escape_invisible(text))
    text = json.dumps(value, ensure_ascii=False, default=lambda item: repr(item)[: MAX_SHOWN + 1])
    return _Value(path, len(text), escape_invisible(text))


def _extend_path(path: str, key: Any) -> str:
    """Return the path of a key. Keys that could be read as something else are quoted."""
    name = str(key)
    if _PLAIN_KEY.fullmatch(name) is None:
        name = escape_invisible(json.dumps(name, ensure_ascii=False))
    return f"{path}.{name}" if path else name
