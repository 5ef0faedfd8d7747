"""Messages for the twelve keywords of the tool_use API, built only after validation has failed.

There are two wordings: the texts of the tool_use API, whose types and values are Python's, and those for models, with
the types and values of JSON. The keywords mean what JSON Schema says (a boolean is not an integer, 1.0 is one). A
problem has its path and keyword, so that the library's error for the same problem can be skipped.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeGuard

from mcp_bridge._json_schema.type_sets import get_type

KEYWORDS = frozenset(
    {
        "type", "required", "properties", "items", "enum", "minimum", "maximum",
        "minLength", "maxLength", "minItems", "maxItems", "additionalProperties",
    }
)  # fmt: skip

_TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: _is_number(value) and (isinstance(value, int) or value.is_integer()),
    "number": lambda value: _is_number(value) and (isinstance(value, int) or math.isfinite(value)),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list | tuple),
    "null": lambda value: value is None,
}

_NOT_JSON = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}

MAX_DEPTH = 128
"""How deep data is described; parsers reject JSON this deep long before."""


class ValidationProblem(NamedTuple):
    """One problem: its JSON path such as `$.a[0]`, its keyword, and its message.

    For a property that is not allowed, `other_names` are the properties that it may mean.
    """

    path: str
    keyword: str
    text: str
    other_names: Collection[str] = ()


def format_path(parts: Iterable[str | int]) -> str:
    """The path of a problem in the tool_use API's form: `$.a[0].b`."""
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)


class Wording(NamedTuple):
    """How messages name types and values."""

    get_type_name: Callable[[Any], str]
    format_types: Callable[[Any], str]
    format_value: Callable[[Any], str]


def format_types(names: Any) -> str:
    """`integer or null`, for models."""
    return " or ".join(map(str, names)) if isinstance(names, list | tuple) else str(names)


def _format_json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except Exception:  # it is not JSON, or contains itself
        return _format_repr(value)


def _format_repr(value: Any) -> str:
    try:
        return repr(value)
    except Exception:  # a third-party __repr__
        return f"<{type(value).__name__}>"


TOOL_USE_WORDING = Wording(lambda value: type(value).__name__, str, _format_repr)
MODEL_WORDING = Wording(get_type, format_types, _format_json)


def find_problems(
    data: Any, schema: Any, path: str = "$", depth: int = 0, *, wording: Wording = TOOL_USE_WORDING
) -> Iterator[ValidationProblem]:
    """The problems of the data by the twelve keywords, in the tool_use API's order. Never raises."""
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
        return
    if (problem := _check_type(data, schema.get("type"), path, wording)) is not None:
        yield problem
        return
    yield from _check_enum(data, schema, path, wording)
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


def _check_type(data: Any, expected: Any, path: str, wording: Wording) -> ValidationProblem | None:
    """Unknown type names are ignored."""
    names = expected if isinstance(expected, list | tuple) else [expected]
    known = [name for name in names if isinstance(name, str) and name in _TYPES]
    if not known or any(_TYPES[name](data) for name in known):
        return None
    if isinstance(data, float) and not math.isfinite(data) and "number" in known:
        found = _NOT_JSON[str(float(data))]
    else:
        found = wording.get_type_name(data)
    return ValidationProblem(path, "type", f"{path}: expected type {wording.format_types(expected)}, got {found}")


def _check_enum(data: Any, schema: Mapping[str, Any], path: str, wording: Wording) -> Iterator[ValidationProblem]:
    allowed = schema.get("enum")
    if isinstance(allowed, list | tuple) and not any(_is_equal(data, item) for item in allowed):
        value, members = wording.format_value(data), wording.format_value(allowed)
        yield ValidationProblem(path, "enum", f"{path}: value {value} not in enum {members}")


def _is_equal(left: Any, right: Any) -> bool:
    """JSON equality: a boolean is never a number, however deep."""
    try:
        if isinstance(left, bool) or isinstance(right, bool):
            return left is right
        if isinstance(left, list | tuple) and isinstance(right, list | tuple):
            return len(left) == len(right) and all(map(_is_equal, left, right))
        if isinstance(left, dict) and isinstance(right, dict):
            return left.keys() == right.keys() and all(_is_equal(left[key], right[key]) for key in left)
        return bool(left == right)
    except Exception:  # a third-party __eq__, or a cycle
        return False


def _check_bounds(
    what: str, size: float, schema: Mapping[str, Any], least: str, most: str, path: str, wording: Wording
) -> Iterator[ValidationProblem]:
    low, high = schema.get(least), schema.get(most)
    if _is_number(low) and size < low:
        yield ValidationProblem(path, least, f"{path}: {what} {wording.format_value(size)} < {least} {low}")
    if _is_number(high) and size > high:
        yield ValidationProblem(path, most, f"{path}: {what} {wording.format_value(size)} > {most} {high}")


def _check_object(
    data: dict[Any, Any], schema: Mapping[str, Any], path: str, depth: int, wording: Wording
) -> Iterator[ValidationProblem]:
    required = schema.get("required")
    for name in required if isinstance(required, list | tuple) else ():
        if isinstance(name, str) and name not in data:
            yield ValidationProblem(f"{path}.{name}", "required", f"{path}.{name}: required field missing")
    properties = given if isinstance(given := schema.get("properties"), Mapping) else {}
    for name, inner in properties.items():
        if name in data:
            yield from find_problems(data[name], inner, f"{path}.{name}", depth + 1, wording=wording)
    if schema.get("additionalProperties") is False and "patternProperties" not in schema:
        for name in sorted(str(key) for key in data if key not in properties):
            yield make_unknown_property_problem(f"{path}.{name}", properties.keys() - data.keys())


def make_unknown_property_problem(path: str, other_names: Collection[str] = ()) -> ValidationProblem:
    text = f"{path}: additional property not allowed"
    return ValidationProblem(path, "additionalProperties", text, other_names)
