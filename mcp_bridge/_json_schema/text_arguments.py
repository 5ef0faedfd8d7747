"""Reads arguments that arrive as text, such as those of prompts and URIs, and lists the values a schema allows.

Text that fits its type is not changed; other text is parsed as JSON: `5`, `true`, `[1, 2]`, `{"city": "Bonn"}`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mcp_bridge._contracts.errors import InvalidArguments
from mcp_bridge._json_schema.walking import UNIONS, list_values, walk_applied_schemas

Bind = Callable[[Mapping[str, Any]], dict[str, Any]]

_MAX_CHARACTERS = 64 * 1024
"""The longest text that is parsed as JSON: four megabytes of it become hundreds of megabytes of values."""
_CHOICE_ERRORS = frozenset({"enum", "literal_error", "none_required"})
"""pydantic's error types for a value that is not listed; those for a wrong type end in `_type`."""


def bind_from_text(bind: Bind) -> Bind:
    """Wraps `bind`, which expects JSON values, so that it accepts text and lists of text."""

    def bind_text(data: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return bind(data)
        except InvalidArguments as error:
            parsed = _parse_mistyped(data, error.__cause__)
            if parsed == data:
                raise
        return bind(parsed)

    return bind_text


def _parse_mistyped(data: Mapping[str, Any], cause: BaseException | None) -> Mapping[str, Any]:
    """The data with JSON in place of each text that has the wrong type."""
    from pydantic import ValidationError

    if not isinstance(cause, ValidationError) or not isinstance(data, Mapping):
        return data
    values = {name: list(value) if isinstance(value, list) else value for name, value in data.items()}
    for problem in cause.errors(include_url=False):
        name, *steps = (str(problem["loc"][0]), *problem["loc"][1:])
        if name in data and (problem["type"].endswith("_type") or problem["type"] in _CHOICE_ERRORS):
            index = next((step for step in steps if isinstance(step, int)), None)
            if not isinstance(data[name], list):
                values[name] = _parse_json(data[name])
            elif index is not None:
                values[name][index] = _parse_json(data[name][index])
    return values


def _parse_json(text: Any) -> Any:
    """The value of a JSON text, or the text itself. Python programs write booleans as `True` and `False`."""
    from pydantic_core import from_json

    if isinstance(text, str) and len(text) > _MAX_CHARACTERS:
        return text
    try:
        return from_json(text.lower() if text in ("True", "False") else text, allow_inf_nan=False)
    except (ValueError, TypeError):  # TypeError: not text, which only calls within the process pass
        return text


def list_choices(schema: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """For each property of a function's schema that lists its values (enum, `Literal`, boolean), the values as text."""
    choices = {}
    for name, part in schema["properties"].items():
        if values := dict.fromkeys(_list_texts(part, schema)):
            choices[name] = tuple(values)
    return choices


def _list_texts(schema: Any, root: Mapping[str, Any]) -> Iterator[str]:
    """The values that a schema lists, in a union those of every branch."""
    for part in walk_applied_schemas(schema, root, UNIONS):
        listed = list_values(part)
        if listed is None and part.get("type") == "boolean":
            listed = [True, False]
        for value in listed or ():
            if isinstance(value, str):
                yield value
            elif isinstance(value, bool | int | float):
                yield json.dumps(value)
