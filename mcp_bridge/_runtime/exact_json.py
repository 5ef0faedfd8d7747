"""Writes and reads JSON with exact integers of more than 64 bits, at the speed of orjson.

orjson cannot write such integers, and reads them as floats. They are rare, so `dump_json` looks for them only if orjson
raises, and `load_json` only if the text has 19 digits in a row.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import Any

import orjson

LARGEST_INTEGER = int(sys.float_info.max)
"""The largest integer that other JSON parsers read as a number."""
INT64 = range(-(2**63), 2**64)
"""The integers that orjson reads and writes exactly."""
_MAX_DEPTH = 254
"""The maximum number of levels that orjson writes."""
_DIGITS_TO_ZERO = bytes(ord("0") if byte in b"0123456789" else ord(" ") for byte in range(256))
"""A translation table that turns digits into 0 and other bytes into spaces.

Searching the translated text for `_LONG_RUN` is about 40 times as fast as the regular expression.
"""
_LONG_RUN = b"0" * 19
_LONG_INTEGER = re.compile(rb"(?:^|[:\[,])\s*-?[0-9]{19,}\s*(?:$|[,\]}])")
"""An integer of at least 19 digits as a value, rather than in a text or a float."""


def dump_json(value: Any, option: int | None = None, default: Callable[[Any], Any] | None = None) -> bytes:
    """Return a value as JSON, as `orjson.dumps` does, but with all integers up to LARGEST_INTEGER.

    Raises TypeError for a value outside of JSON.
    """
    try:
        return orjson.dumps(value, default, option)
    except TypeError as error:
        if "64-bit" not in str(error):
            raise
    return orjson.dumps(_wrap_integers(value, 0), default, option)


def load_json(data: bytes | bytearray | str) -> Any:
    """Parse JSON, as `orjson.loads` does, but with exact integers. Raises orjson.JSONDecodeError for invalid JSON."""
    value = orjson.loads(data)
    if isinstance(data, str):
        data = data.encode()
    if has_long_digits(data) and _LONG_INTEGER.search(data) is not None:
        # The standard library reads fewer levels than orjson. Then the inexact value has to do.
        with suppress(RecursionError, ValueError):
            return json.loads(data)
    return value


def has_long_digits(data: bytes | bytearray) -> bool:
    """Whether a text has 19 digits in a row, and so perhaps an integer of more than 64 bits."""
    return _LONG_RUN in data.translate(_DIGITS_TO_ZERO)


class DuplicateName(ValueError):
    """A name occurs twice in one object. Another parser may use the other value."""


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs as a dict. Raises DuplicateName."""
    data = dict(pairs)
    if len(data) < len(pairs):
        names: set[str] = set()
        for name, _ in pairs:
            if name in names:
                raise DuplicateName(name)
            names.add(name)
    return data


STRICT = json.JSONDecoder(object_pairs_hook=_reject_duplicates)
"""A decoder that reads integers exactly and raises DuplicateName."""


def _wrap_integers(value: Any, depth: int) -> Any:
    """Return a copy with large integers as fragments of JSON. orjson inserts them unchanged."""
    value_type = type(value)
    if value_type is int:
        if value in INT64 or abs(value) > LARGEST_INTEGER:
            return value
        return orjson.Fragment(str(value))
    if depth > _MAX_DEPTH:
        raise TypeError(f"the value contains itself or is nested deeper than {_MAX_DEPTH} levels")
    if is_dataclass(value) and not isinstance(value, type):
        # orjson writes the fields of dataclasses, too, but not those with a leading underscore.
        value = {field.name: getattr(value, field.name) for field in fields(value) if not field.name.startswith("_")}
    if isinstance(value, dict):
        return {key: _wrap_integers(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list) or value_type is tuple:
        return [_wrap_integers(item, depth + 1) for item in value]
    return value
