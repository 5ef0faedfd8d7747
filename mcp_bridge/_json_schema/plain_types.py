"""JSON Schemas of plain Python types, exactly as pydantic generates them, because importing pydantic takes 80 ms.

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
"""Types of results that are not validated, because they are not specific."""
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
    required = []
    for item in parameters:
        schema = describe_type(types[item.name])
        if schema is None or item.kind not in _NAMED:
            return None
        default = item.default
        if default is item.empty:
            required.append(item.name)
        elif default is None:
            # A null default is left out where null does not fit.
            if schema.get("type", "null") == "null" and ("anyOf" not in schema or _NULL in schema["anyOf"]):
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
    """Return the schema of results, empty if the type is not specific, or None if only pydantic can describe them."""
    if annotation in UNTYPED or is_untyped_list(annotation):
        return {}
    return describe_type(annotation)


def is_untyped_list(annotation: Any) -> bool:
    """Return whether a type is a list or tuple of anything: it may contain content blocks, which are no JSON."""
    is_list = annotation in (list, tuple) or get_origin(annotation) in (list, tuple)
    return is_list and all(argument in (Any, ...) for argument in get_args(annotation))


def describe_type(annotation: Any) -> dict[str, Any] | None:
    """Return the schema of a plain type, with sorted keys, or None for any other type."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        # As in the schemas of pydantic, null is the last alternative.
        schemas = [describe_type(member) for member in sorted(arguments, key=lambda member: member is NoneType)]
        return {"anyOf": schemas} if None not in schemas and {} not in schemas else None
    if origin is list and arguments:
        items = describe_type(arguments[0])
        return {"items": items, "type": "array"} if items is not None else None
    if origin is dict and arguments[:1] == (str,):
        values = describe_type(arguments[1])
        return {"additionalProperties": values or True, "type": "object"} if values is not None else None
    if origin is Literal and all(type(value) is str for value in arguments):
        values = {"const": arguments[0]} if len(arguments) == 1 else {"enum": list(arguments)}
        return {**values, "type": "string"}
    if annotation is Any:
        return {}
    if isinstance(annotation, type) and annotation in _TYPES:
        return {"type": _TYPES[annotation]}
    return None
