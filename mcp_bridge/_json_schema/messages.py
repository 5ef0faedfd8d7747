"""Explains problems with the twelve keywords of the tool_use API, after validation has failed.

There are two wordings. The tool_use API uses the types and values of Python, and models get those of JSON. The keywords
have the meaning of JSON Schema: a boolean is not an integer, and 1.0 is one. Each problem has its path and its keyword,
so that `validator.py` can skip the error of the library for the same problem.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeGuard

from mcp_bridge._json_schema.type_sets import get_type, list_declared_types
from mcp_bridge._json_schema.walking import get_mapping, select_texts

KEYWORDS = frozenset(
    {
        "type", "required", "properties", "items", "enum", "minimum", "maximum",
        "minLength", "maxLength", "minItems", "maxItems", "additionalProperties",
    }
)  # fmt: skip
"""The keywords that the tool_use API supports."""

_TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: _is_number(value) and (isinstance(value, int) or value.is_integer()),
    "number": lambda value: _is_number(value) and (isinstance(value, int) or math.isfinite(value)),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list | tuple),
    "null": lambda value: value is None,
}
_NON_FINITE_NAMES = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
"""The names of numbers outside of JSON, by their text in Python."""
MAX_DEPTH = 128
"""The maximum number of explained levels of data. JSON parsers reject such deep data anyway."""


class ValidationProblem(NamedTuple):
    """A problem of data.

    Attributes:
        path: The JSON path of the value, such as `$.a[0]`.
        keyword: The keyword of the schema.
        text: The message.
        other_names: For a property that is not allowed, the names of the allowed ones, for suggestions.
    """

    path: str
    keyword: str
    text: str
    other_names: Collection[str] = ()


def format_path(steps: Iterable[str | int]) -> str:
    """Return a path in the form of the tool_use API: `$.a[0].b`."""
    path = "$"
    for step in steps:
        path += f"[{step}]" if isinstance(step, int) else f".{step}"
    return path


class Wording(NamedTuple):
    """How messages name the type of a value, the types of a schema, and a value."""

    get_type_name: Callable[[Any], str]
    format_types: Callable[[Any], str]
    format_value: Callable[[Any], str]


def format_types(names: Any) -> str:
    """Return the value of `type` as text for a model: `integer or null`."""
    return " or ".join(map(str, names)) if isinstance(names, list | tuple) else str(names)


def _format_json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except Exception:
        # Data of a caller in this process may not be JSON, or contain itself.
        return _format_repr(value)


def _format_repr(value: Any) -> str:
    try:
        return repr(value)
    except Exception:
        # A third-party __repr__ may fail.
        return f"<{type(value).__name__}>"


TOOL_USE_WORDING = Wording(lambda value: type(value).__name__, str, _format_repr)
MODEL_WORDING = Wording(get_type, format_types, _format_json)


def find_problems(
    data: Any, schema: Any, path: str = "$", depth: int = 0, *, wording: Wording = TOOL_USE_WORDING
) -> Iterator[ValidationProblem]:
    """Yield the problems of data with the twelve keywords, in the order of the tool_use API. Never raises."""
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
        return
    problem = _check_type(data, schema, path, wording)
    if problem is not None:
        yield problem
        return
    members = schema.get("enum")
    if isinstance(members, list | tuple) and not any(_is_equal(data, member) for member in members):
        value = wording.format_value(data)
        listed_values = wording.format_value(members)
        yield ValidationProblem(path, "enum", f"{path}: value {value} not in enum {listed_values}")
    if isinstance(data, str):
        yield from _check_bounds("string length", len(data), schema, "minLength", "maxLength", path, wording)
    elif _is_number(data):
        yield from _check_bounds("value", data, schema, "minimum", "maximum", path, wording)
    elif isinstance(data, list | tuple):
        yield from _check_bounds("array length", len(data), schema, "minItems", "maxItems", path, wording)
        prefix = schema.get("prefixItems")
        start = len(prefix) if isinstance(prefix, list) else 0
        for index, item in enumerate(data[start:], start):
            yield from find_problems(item, schema.get("items"), f"{path}[{index}]", depth + 1, wording=wording)
    elif isinstance(data, dict):
        yield from _check_object(data, schema, path, depth, wording)


def _is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_type(data: Any, schema: Mapping[str, Any], path: str, wording: Wording) -> ValidationProblem | None:
    """Return the problem if data has another type than the schema. Unknown names of types are ignored."""
    names = [name for name in list_declared_types(schema) if name in _TYPES]
    if not names or any(_TYPES[name](data) for name in names):
        return None
    if isinstance(data, float) and not math.isfinite(data) and "number" in names:
        type_name = _NON_FINITE_NAMES[str(float(data))]
    else:
        type_name = wording.get_type_name(data)
    expected = wording.format_types(schema["type"])
    return ValidationProblem(path, "type", f"{path}: expected type {expected}, got {type_name}")


def _is_equal(first: Any, second: Any) -> bool:
    """Whether two values are equal in JSON, where a boolean is never equal to a number, on any level."""
    try:
        if isinstance(first, bool) or isinstance(second, bool):
            return first is second
        if isinstance(first, list | tuple) and isinstance(second, list | tuple):
            return len(first) == len(second) and all(map(_is_equal, first, second))
        if isinstance(first, dict) and isinstance(second, dict):
            return first.keys() == second.keys() and all(_is_equal(first[key], second[key]) for key in first)
        return bool(first == second)
    except Exception:
        # A third-party __eq__ can raise anything, and values that contain themselves raise RecursionError.
        return False


def _check_bounds(
    label: str, size: float, schema: Mapping[str, Any], low_keyword: str, high_keyword: str, path: str, wording: Wording
) -> Iterator[ValidationProblem]:
    """Yield the problem of a size with a minimum and a maximum."""
    low, high = schema.get(low_keyword), schema.get(high_keyword)
    if _is_number(low) and size < low:
        text = f"{path}: {label} {wording.format_value(size)} < {low_keyword} {low}"
        yield ValidationProblem(path, low_keyword, text)
    if _is_number(high) and size > high:
        text = f"{path}: {label} {wording.format_value(size)} > {high_keyword} {high}"
        yield ValidationProblem(path, high_keyword, text)


def _check_object(
    data: dict[Any, Any], schema: Mapping[str, Any], path: str, depth: int, wording: Wording
) -> Iterator[ValidationProblem]:
    """Yield the problems of an object: its required, known and unknown properties."""
    for name in select_texts(schema.get("required")):
        if name not in data:
            yield ValidationProblem(f"{path}.{name}", "required", f"{path}.{name}: required field missing")
    properties = get_mapping(schema, "properties")
    for name, subschema in properties.items():
        if name in data:
            yield from find_problems(data[name], subschema, f"{path}.{name}", depth + 1, wording=wording)
    if schema.get("additionalProperties") is False and "patternProperties" not in schema:
        for name in sorted(str(key) for key in data if key not in properties):
            yield make_unknown_property_problem(f"{path}.{name}", properties.keys() - data.keys())


def make_unknown_property_problem(path: str, other_names: Collection[str] = ()) -> ValidationProblem:
    """Return the problem for a property that is not allowed."""
    text = f"{path}: additional property not allowed"
    return ValidationProblem(path, "additionalProperties", text, other_names)
