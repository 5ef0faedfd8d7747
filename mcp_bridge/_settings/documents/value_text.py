"""How error messages name a value: its kind, and a short text without secrets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

MAX_SHOWN = 60
SHORTEST_SECRET = 4
"""The minimum length of a secret that is redacted in messages. Shorter texts occur in ordinary words."""
SENSITIVE = ("token", "secret", "pass", "key", "auth", "credential")
"""Parts of names that mark a secret."""

_KINDS: dict[type, str] = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "a mapping",
    type(None): "nothing (null)",
}


def describe_kind(value: Any) -> str:
    """Name the kind of a value in plain words: `text`, `a list`."""
    return _KINDS.get(type(value), f"a {type(value).__name__}")


def describe_value(value: Any) -> str:
    """Describe a value by kind and shortened text. Lists and mappings may hold secrets, so only their kind is shown."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"text {quote_text(value)}"
    if isinstance(value, int | float):
        return f"the number {value}"
    return describe_kind(value)


def quote_text(text: str) -> str:
    """Quote a text, at most 60 characters of it."""
    return repr(text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…")


def redact_values(text: str, values: Iterable[str]) -> str:
    """Replace the values in a text by three stars, as they are and as `repr` writes them, the longest first."""
    for value in sorted(filter(None, values), key=len, reverse=True):
        text = text.replace(value, "***").replace(repr(value)[1:-1], "***")
    return text


def is_encodable(value: str) -> bool:
    """Return whether a text can be encoded as UTF-8: half of a surrogate pair cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
