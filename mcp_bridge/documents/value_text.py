"""How error messages name a value: its kind, and a short text without secrets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

MAX_SHOWN = 60
SHORTEST_SECRET = 4
"""Shorter texts are not searched for in messages: they would hit ordinary words."""
SENSITIVE = ("token", "secret", "pass", "key", "auth", "credential")
"""What is in the names of secrets."""

_KINDS: dict[type, str] = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "a mapping",
    type(None): "nothing (null)",
}


def kind(value: Any) -> str:
    """The kind of a value in plain words: `text`, `a list`."""
    return _KINDS.get(type(value), f"a {type(value).__name__}")


def shown(value: Any) -> str:
    """The value and its kind, shortened; of lists and mappings only the kind, as they may hold secrets."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"text {shortened(value)}"
    if isinstance(value, int | float):
        return f"the number {value}"
    return kind(value)


def shortened(text: str) -> str:
    """Text in quotes, at most 60 characters of it."""
    return repr(text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…")


def redacted(text: str, values: Iterable[str]) -> str:
    """The text with three stars for each of the values, as they are or as `repr` has them, the longest first."""
    for value in sorted(filter(None, values), key=len, reverse=True):
        text = text.replace(value, "***").replace(repr(value)[1:-1], "***")
    return text


def is_text(value: str) -> bool:
    """Whether the text can be written as UTF-8: half of a surrogate pair cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
