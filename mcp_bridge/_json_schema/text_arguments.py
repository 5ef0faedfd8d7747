"""Reads arguments from text, and lists the allowed values of a schema, for completions.

Arguments of prompts and variables of URIs arrive as text. If the parameter accepts the text itself, it stays text.
Otherwise it is parsed as JSON: `5`, `true`, `[1, 2]`, `{"city": "Bonn"}`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from mcp_bridge._contracts.errors import InvalidArguments
from mcp_bridge._json_schema.walking import UNIONS, list_values, walk_applied_schemas

Bind = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Converts JSON arguments to keyword arguments. Raises InvalidArguments."""

_MAX_CHARACTERS = 64 * 1024
"""The maximum length of a text to parse as JSON. Four megabytes of text can become hundreds of megabytes of values."""
_CHOICE_ERRORS = frozenset({"enum", "literal_error", "none_required"})
"""pydantic's types of errors for a value that is not listed. Those for a wrong type end in `_type`."""


def bind_from_text(bind: Bind) -> Bind:
    """Wrap `bind`, which expects JSON values, so that it accepts text and lists of text."""

    def bind_text(data: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return bind(data)
        except InvalidArguments as error:
            values = _parse_mistyped(data, error.__cause__)
            if values == data:
                raise
        return bind(values)

    return bind_text


def _parse_mistyped(data: Mapping[str, Any], cause: BaseException | None) -> Mapping[str, Any]:
    """Return the data with JSON in place of each text that has the wrong type."""
    from pydantic import ValidationError

    if not isinstance(cause, ValidationError) or not isinstance(data, Mapping):
        return data
    values = {name: list(value) if isinstance(value, list) else value for name, value in data.items()}
    for problem in cause.errors(include_url=False):
        # The path of a problem starts with the name of the argument. In a list, an index follows.
        name = str(problem["loc"][0])
        steps = problem["loc"][1:]
        if name in data and (problem["type"].endswith("_type") or problem["type"] in _CHOICE_ERRORS):
            index = next((step for step in steps if isinstance(step, int)), None)
            if not isinstance(data[name], list):
                values[name] = _parse_json(data[name])
            elif index is not None:
                values[name][index] = _parse_json(data[name][index])
    return values


def _parse_json(text: Any) -> Any:
    """Return the value of a JSON text, or the text itself. Python programs write booleans as `True` and `False`."""
    from pydantic_core import from_json

    if isinstance(text, str) and len(text) > _MAX_CHARACTERS:
        return text
    try:
        return from_json(text.lower() if text in ("True", "False") else text, allow_inf_nan=False)
    except (ValueError, TypeError):
        # A call within the process may pass something else than text, which is a TypeError.
        return text


def list_choices(schema: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return all values, as text, of properties with a list of values: enums, `Literal`, and booleans."""
    choices = {}
    for name, property_schema in schema["properties"].items():
        texts: dict[str, None] = {}
        for subschema in walk_applied_schemas(property_schema, schema, UNIONS):
            values = list_values(subschema)
            if values is None and subschema.get("type") == "boolean":
                values = [True, False]
            for value in values or ():
                if isinstance(value, str):
                    texts[value] = None
                elif isinstance(value, bool | int | float):
                    texts[json.dumps(value)] = None
        if texts:
            choices[name] = tuple(texts)
    return choices
