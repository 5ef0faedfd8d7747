"""What a tool has answered, as text that a model reads: never an error, whatever is in it."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import date, time
from typing import Any

MAX_DEPTH = 100
"""How deep data may be nested; what is deeper, as in data that contains itself, is cut off."""
_UNREADABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def serialized(output: Any) -> str:
    """Text and numbers as they are, without control characters and lone surrogates; everything else as JSON.

    NaN and infinities become null, bytes base64, dates ISO 8601, sets lists, unknown objects their own text.
    """
    if isinstance(output, str | int | float):
        return _UNREADABLE.sub("", str(output))
    try:
        return json.dumps(output, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        told = _plain(output, 0)
    return _UNREADABLE.sub("", told) if isinstance(told, str) else json.dumps(told)


def _plain(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth > MAX_DEPTH:
        return "..."
    try:
        return _told(value, depth + 1)
    except Exception:  # a stranger's __str__ or model_dump
        return f"<{type(value).__name__}>"


def _told(value: Any, depth: int) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, date | time):
        return value.isoformat()
    if callable(dump := getattr(type(value), "model_dump", None)):
        value = dump(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item, depth) for key, item in value.items()}
    if isinstance(value, list | tuple | AbstractSet):
        return [_plain(item, depth) for item in value]
    return str(value)
