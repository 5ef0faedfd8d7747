"""Describes the shape of arguments (their types and sizes without their values) for the audit trail."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

MAX_DEPTH = 4
"""The maximum number of described levels of objects."""
MAX_KEYS = 64
"""The maximum number of described keys of an object. A shape contains only the number of the others."""
MAX_KEY = 64
"""The maximum number of characters of a key. Clients choose the keys if the schema allows additional properties."""
_TYPE_NAMES = {bool: "boolean", int: "integer", float: "number", type(None): "null"}


def describe_shape(value: Any, depth: int = MAX_DEPTH) -> Any:
    """Return the type of a value, with the length of text and lists: `string[12]`, `array[3]`, `integer`.

    An object becomes an object with the shapes of its values, or below `depth` levels its number of keys: `object[5]`.
    """
    value_type = type(value)
    if value_type in _TYPE_NAMES:
        return _TYPE_NAMES[value_type]
    if value_type is str or isinstance(value, str):
        return f"string[{len(value)}]"
    if value_type is dict or isinstance(value, Mapping):
        if not depth:
            return f"object[{len(value)}]"
        shape: dict[str, Any] = {}
        for key, item in islice(value.items(), MAX_KEYS):
            # Most values are text, so this saves most of the nested calls.
            is_text = type(item) is str
            shape[str(key)[:MAX_KEY]] = f"string[{len(item)}]" if is_text else describe_shape(item, depth - 1)
        if len(value) > MAX_KEYS:
            shape["..."] = f"{len(value) - MAX_KEYS} more"
        return shape
    if isinstance(value, list | tuple):
        return f"array[{len(value)}]"
    return value_type.__name__


def list_keys(shape: Any) -> list[str]:
    """Return the keys of objects in a shape, on all levels."""
    if type(shape) is not dict:
        return []
    keys = list(shape)
    for item in shape.values():
        if type(item) is dict:
            keys += list_keys(item)
    return keys
