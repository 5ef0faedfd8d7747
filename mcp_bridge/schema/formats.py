"""The formats that forms have (client/elicitation), judged: JSON Schema itself takes formats for mere notes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit


def _is_date(text: str) -> bool:
    return re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text) is not None and bool(date.fromisoformat(text))


def _is_date_time(text: str) -> bool:
    # without an offset too: what a person picks from a calendar often has none
    return _is_date(text[:10]) and text[10:11] in ("T", "t", " ") and bool(datetime.fromisoformat(text.upper()))


def _is_uri(text: str) -> bool:
    parts = urlsplit(text)
    return bool(parts.scheme and (parts.netloc or parts.path)) and not re.search(r"\s", text)


def _is_email(text: str) -> bool:
    return re.fullmatch(r"[^@\s]+@[^@\s]+", text) is not None


FORMATS = MappingProxyType({"date": _is_date, "date-time": _is_date_time, "email": _is_email, "uri": _is_uri})
"""Each format with what tells whether a text has it; it may raise ValueError instead of saying no."""


def format_problems(properties: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[str]:
    """A line for each text that is not of its property's format."""
    for name, part in properties.items():
        test, text = FORMATS.get(part.get("format", "")), given.get(name)
        if test is None or not isinstance(text, str):
            continue
        try:
            fits = test(text)
        except ValueError:
            fits = False
        if not fits:
            yield f"$.{name}: {text!r:.80} is not of the format {part['format']}"
