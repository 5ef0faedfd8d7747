"""JSON Schemas of plain Python types, exactly as pydantic generates them, because importing pydantic takes 80 ms.

Plain types are `str`, `int`, `float`, `bool`, `Any`, a `Literal` of texts, and lists, dicts and unions of these.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

_NAMES = ((str, "string"), (int, "integer"), (float, "number"), (bool, "boolean"), (NoneType, "null"))
UNTYPED = (str, bytes, bytearray, None, NoneType, Any, object, inspect.Parameter.empty)
"""Types of results that say nothing: such results are not validated."""
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def describe_arguments(
    parameters: Sequence[inspect.Parameter], types: Mapping[str, Any], notes: Mapping[str, str]
) -> dict[str, Any] | None:
    """Return the schema of arguments, or None if only pydantic can describe them.

    Args:
        parameters: The parameters of the function.
        types: Their annotations by name.
        notes: Their descriptions by name.
    """
    properties = {}
    for item in parameters:
        schema = describe_type(types[item.name])
        if schema is None or item.kind not in _NAMED:
            return None
        if item.default is not item.empty:
            if not _is_plain_default(item.default):
                return None
            if item.default is not None or _is_nullable(schema):
                schema["default"] = item.default
        if item.name in notes:
            schema["description"] = notes[item.name]
        properties[item.name] = dict(sorted(schema.items()))
    required = [item.name for item in parameters if item.default is item.empty]
    closed = {"additionalProperties": False, "properties": properties}
    return closed | ({"required": required} if required else {}) | {"type": "object"}


def describe_result(annotation: Any) -> dict[str, Any] | None:
    """Return the schema of results, empty if the type says nothing, or None if only pydantic can describe them."""
    if annotation in UNTYPED or is_untyped_list(annotation):
        return {}
    return describe_type(annotation)


def is_untyped_list(annotation: Any) -> bool:
    """Whether a type is a list or tuple of anything: it may contain content blocks, which are no JSON."""
    is_list = annotation in (list, tuple) or get_origin(annotation) in (list, tuple)
    return is_list and all(part in (Any, ...) for part in get_args(annotation))


def describe_type(annotation: Any) -> dict[str, Any] | None:
    """Return the schema of a plain type, with sorted keys, or None for any other type."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        schemas = [describe_type(part) for part in sorted(parts, key=_is_none)]
        return {"anyOf": schemas} if None not in schemas and {} not in schemas else None
    if origin is list and parts:
        items = describe_type(parts[0])
        return {"items": items, "type": "array"} if items is not None else None
    if origin is dict and parts[:1] == (str,):
        values = describe_type(parts[1])
        return {"additionalProperties": values or True, "type": "object"} if values is not None else None
    if origin is Literal and all(type(part) is str for part in parts):
        return {"const": parts[0], "type": "string"} if len(parts) == 1 else {"enum": [*parts], "type": "string"}
    if annotation is Any:
        return {}
    return next(({"type": name} for kind, name in _NAMES if annotation is kind), None)


def _is_none(annotation: Any) -> bool:
    return annotation is NoneType


def _is_plain_default(value: Any) -> bool:
    return value is None or type(value) in (str, int, bool) or (type(value) is float and math.isfinite(value))


def _is_nullable(schema: Mapping[str, Any]) -> bool:
    return schema.get("type", "null") == "null" and ("anyOf" not in schema or {"type": "null"} in schema["anyOf"])
