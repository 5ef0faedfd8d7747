"""Generates JSON Schemas of plain Python types, exactly as pydantic does, because importing pydantic takes 80 ms.

Plain types are `str`, `int`, `float`, `bool`, `Any`, a `Literal` of texts, and lists, dicts and unions of these.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

_NULL = {"type": "null"}
_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}
UNTYPED = (str, bytes, bytearray, None, NoneType, Any, object, inspect.Parameter.empty)
"""Types of results that are not specific, so results are not validated."""
_KEYWORD_KINDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


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
    required = []
    for item in parameters:
        schema = describe_type(types[item.name])
        if schema is None or item.kind not in _KEYWORD_KINDS:
            return None
        default = item.default
        if default is item.empty:
            required.append(item.name)
        elif default is None:
            # A parameter may have the default None although its annotation does not allow null.
            accepts_null = schema.get("type", "null") == "null" and ("anyOf" not in schema or _NULL in schema["anyOf"])
            if accepts_null:
                schema["default"] = None
        elif type(default) in (str, int, bool) or (type(default) is float and math.isfinite(default)):
            schema["default"] = default
        else:
            return None
        if item.name in notes:
            schema["description"] = notes[item.name]
        properties[item.name] = dict(sorted(schema.items()))
    arguments: dict[str, Any] = {"additionalProperties": False, "properties": properties}
    if required:
        arguments["required"] = required
    return {**arguments, "type": "object"}


def describe_result(annotation: Any) -> dict[str, Any] | None:
    """Return the schema of results, or None if only pydantic can describe them. It is empty for UNTYPED types."""
    if annotation in UNTYPED or is_untyped_list(annotation):
        return {}
    return describe_type(annotation)


def is_untyped_list(annotation: Any) -> bool:
    """Whether a type is a list or tuple of anything. Its values may contain content blocks, which are not JSON."""
    is_list = annotation in (list, tuple) or get_origin(annotation) in (list, tuple)
    return is_list and all(argument in (Any, ...) for argument in get_args(annotation))


def describe_type(annotation: Any) -> dict[str, Any] | None:
    """Return the schema of a plain type, with sorted keys, or None for any other type."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        # As in the schemas of pydantic, null is the last alternative. False sorts before True.
        schemas = [describe_type(member) for member in sorted(arguments, key=lambda member: member is NoneType)]
        if None in schemas or {} in schemas:
            return None
        return {"anyOf": schemas}
    if origin is list and arguments:
        items = describe_type(arguments[0])
        if items is None:
            return None
        return {"items": items, "type": "array"}
    if origin is dict and arguments[:1] == (str,):
        values = describe_type(arguments[1])
        if values is None:
            return None
        return {"additionalProperties": values or True, "type": "object"}
    if origin is Literal and all(type(value) is str for value in arguments):
        values = {"const": arguments[0]} if len(arguments) == 1 else {"enum": list(arguments)}
        return {**values, "type": "string"}
    if annotation is Any:
        return {}
    if isinstance(annotation, type) and annotation in _TYPES:
        return {"type": _TYPES[annotation]}
    return None
