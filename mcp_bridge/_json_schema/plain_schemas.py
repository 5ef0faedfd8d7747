"""Recognizes schemas that are surely understood, so that a start needs neither a validator nor to import one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mcp_bridge._json_schema.type_sets import TYPES

_MAX_DEPTH = 16
_MAX_NUMBER = 2**53


def is_plain(schema: Any, depth: int = 0) -> bool:
    """Return whether a schema only has common keywords with valid values; what it leaves out may be valid too."""
    if type(schema) is not dict or depth > _MAX_DEPTH:
        return False
    for keyword, value in schema.items():
        if keyword == "properties":
            if not _is_object(value) or not all(is_plain(part, depth + 1) for part in value.values()):
                return False
        elif keyword in ("items", "additionalProperties"):
            if type(value) is not bool and not is_plain(value, depth + 1):
                return False
        elif keyword in ("anyOf", "oneOf", "allOf"):
            if type(value) is not list or not value or not all(is_plain(part, depth + 1) for part in value):
                return False
        elif keyword not in _CHECKS or not _CHECKS[keyword](value):
            return False
    return True


def _is_text(value: Any) -> bool:
    return type(value) is str and (value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value))


def _is_object(value: Any) -> bool:
    return type(value) is dict and all(map(_is_text, value))


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= _MAX_NUMBER


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MAX_NUMBER


def _is_scalar(value: Any) -> bool:
    return _is_text(value) or value is None or type(value) is bool or _is_number(value)


def _is_list_of(value: Any, check: Callable[[Any], bool]) -> bool:
    return type(value) is list and all(map(check, value))


def _is_type(value: Any) -> bool:
    return (type(value) is str and value in TYPES) or (_is_names(value) and bool(value) and TYPES.issuperset(value))


def _is_names(value: Any) -> bool:
    return _is_list_of(value, _is_text) and len({*value}) == len(value)


_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    "type": _is_type,
    "required": _is_names,
    "enum": lambda value: _is_list_of(value, _is_scalar) and bool(value),
    **dict.fromkeys(("title", "description"), _is_text),
    **dict.fromkeys(("const", "default"), _is_scalar),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _is_count),
}
