"""The tool_use API's messages for its twelve keywords, built only after validation has failed.

The texts are exactly those of the tool_use API; the keywords mean what JSON Schema says (a boolean is not an integer,
1.0 is one). A problem has its path and keyword, so that the library's error for the same problem can be skipped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeGuard

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

_JSON_TYPES = {
    "str": "string", "int": "integer", "float": "number", "bool": "boolean", "NoneType": "null",
    "dict": "object", "list": "array", "tuple": "array",
}  # fmt: skip
"""Python's types, which the tool_use API names, and what JSON calls them."""
_NOT_JSON = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}

MAX_DEPTH = 128
"""How deep data is described; parsers reject JSON this deep long before."""


class ValidationProblem(NamedTuple):
    """One problem: its JSON path such as `$.a[0]`, its keyword, and its message."""

    path: str
    keyword: str
    text: str


def format_path(parts: Iterable[str | int]) -> str:
    """The path of a problem in the tool_use API's form: `$.a[0].b`."""
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)


def get_json_type(value: Any) -> str:
    """The name of a value's type in JSON; that of its Python type if JSON has no such values."""
    name = type(value).__name__
    return _JSON_TYPES.get(name, name)


def format_for_model(problem: ValidationProblem, root: str) -> str:
    """The message with JSON's name of the type that was found, and a path that starts with `root`."""
    text = problem.text
    if problem.keyword == "type":
        beginning, separator, name = text.rpartition(", got ")
        text = f"{beginning}{separator}{_JSON_TYPES.get(name, name)}"
    return f"{root}{text[1:]}" if text.startswith("$") else text


def find_problems(data: Any, schema: Any, path: str = "$", depth: int = 0) -> Iterator[ValidationProblem]:
    """The problems of the data by the twelve keywords, in the tool_use API's order. Never raises."""
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
        return
    if (problem := _check_type(data, schema.get("type"), path)) is not None:
        yield problem
        return
    yield from _check_enum(data, schema, path)
    if isinstance(data, str):
        yield from _check_bounds("string length", len(data), schema, "minLength", "maxLength", path)
    elif _is_number(data):
        yield from _check_bounds("value", data, schema, "minimum", "maximum", path)
    elif isinstance(data, list | tuple):
        yield from _check_bounds("array length", len(data), schema, "minItems", "maxItems", path)
        prefix = schema.get("prefixItems")
        start = len(prefix) if isinstance(prefix, list) else 0
        for index, item in enumerate(data[start:], start):
            yield from find_problems(item, schema.get("items"), f"{path}[{index}]", depth + 1)
    elif isinstance(data, dict):
        yield from _check_object(data, schema, path, depth)


def _is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_type(data: Any, expected: Any, path: str) -> ValidationProblem | None:
    """Unknown type names are ignored."""
    names = expected if isinstance(expected, list | tuple) else [expected]
    known = [name for name in names if isinstance(name, str) and name in _TYPES]
    if not known or any(_TYPES[name](data) for name in known):
        return None
    if isinstance(data, float) and not math.isfinite(data) and "number" in known:
        found = _NOT_JSON[str(float(data))]
    else:
        found = type(data).__name__
    return ValidationProblem(path, "type", f"{path}: expected type {expected}, got {found}")


def _check_enum(data: Any, schema: Mapping[str, Any], path: str) -> Iterator[ValidationProblem]:
    allowed = schema.get("enum")
    if isinstance(allowed, list | tuple) and not any(_is_equal(data, item) for item in allowed):
        yield ValidationProblem(
            path, "enum", f"{path}: value {_format_value(data)} not in enum {_format_value(allowed)}"
        )


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


def _format_value(value: Any) -> str:
    try:
        return repr(value)
    except Exception:  # a third-party __repr__
        return f"<{type(value).__name__}>"


def _check_bounds(
    what: str, size: float, schema: Mapping[str, Any], least: str, most: str, path: str
) -> Iterator[ValidationProblem]:
    low, high = schema.get(least), schema.get(most)
    if _is_number(low) and size < low:
        yield ValidationProblem(path, least, f"{path}: {what} {_format_value(size)} < {least} {low}")
    if _is_number(high) and size > high:
        yield ValidationProblem(path, most, f"{path}: {what} {_format_value(size)} > {most} {high}")


def _check_object(
    data: dict[Any, Any], schema: Mapping[str, Any], path: str, depth: int
) -> Iterator[ValidationProblem]:
    required = schema.get("required")
    for name in required if isinstance(required, list | tuple) else ():
        if isinstance(name, str) and name not in data:
            yield ValidationProblem(f"{path}.{name}", "required", f"{path}.{name}: required field missing")
    properties = given if isinstance(given := schema.get("properties"), Mapping) else {}
    for name, inner in properties.items():
        if name in data:
            yield from find_problems(data[name], inner, f"{path}.{name}", depth + 1)
    if schema.get("additionalProperties") is False and "patternProperties" not in schema:
        for name in sorted(str(key) for key in data if key not in properties):
            where = f"{path}.{name}"
            yield ValidationProblem(where, "additionalProperties", f"{where}: additional property not allowed")
