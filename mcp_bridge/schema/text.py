"""Arguments that arrive as text, as a prompt's and a URI's do: read as what their types say, and known in advance.

Text that fits its type stays text; other text is the JSON that it spells: `5`, `true`, `[1, 2]`, `{"city": "Bonn"}`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mcp_bridge.contracts.errors import InvalidArguments

Bind = Callable[[Mapping[str, Any]], dict[str, Any]]

LONGEST = 64 * 1024
"""The most characters of text that is read as JSON: four megabytes of it become hundreds of megabytes of values."""
_CHOICES = frozenset({"enum", "literal_error", "none_required"})
"""pydantic's names for a value that is none of those listed; for one of the wrong type they end in `_type`."""


def from_text(bind: Bind) -> Bind:
    """`bind`, which expects JSON values, for text and lists of text. Raises what it raises."""

    def read(data: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return bind(data)
        except InvalidArguments as refused:
            spelled = _spelled(data, refused.__cause__)
            if spelled == data:
                raise
        return bind(spelled)

    return read


def _spelled(data: Mapping[str, Any], cause: BaseException | None) -> Mapping[str, Any]:
    """`data` with JSON in place of each text that is of the wrong type."""
    from pydantic import ValidationError

    if not isinstance(cause, ValidationError) or not isinstance(data, Mapping):
        return data
    values = {name: list(value) if isinstance(value, list) else value for name, value in data.items()}
    for problem in cause.errors(include_url=False):
        name, *steps = (str(problem["loc"][0]), *problem["loc"][1:])
        if name in data and (problem["type"].endswith("_type") or problem["type"] in _CHOICES):
            index = next((step for step in steps if isinstance(step, int)), None)
            if not isinstance(data[name], list):
                values[name] = _json(data[name])
            elif index is not None:
                values[name][index] = _json(data[name][index])
    return values


def _json(text: Any) -> Any:
    """What the text spells, or else the text. `True` and `False` are how Python programs write a boolean."""
    from pydantic_core import from_json

    if isinstance(text, str) and len(text) > LONGEST:
        return text
    try:
        return from_json(text.lower() if text in ("True", "False") else text, allow_inf_nan=False)
    except (ValueError, TypeError):  # TypeError: no text at all, as a call inside the process may bring
        return text


def choices(schema: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """The properties of a function's schema whose types list all their values (enums, `Literal`, booleans), as text."""
    definitions = schema.get("$defs", {})
    found = {name: tuple(dict.fromkeys(_listed(part, definitions))) for name, part in schema["properties"].items()}
    return {name: values for name, values in found.items() if values}


def _listed(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Iterator[str]:
    """The values that pydantic's keywords list; of a union, those of every branch."""
    if "$ref" in schema:
        schema = definitions.get(schema["$ref"].rsplit("/", 1)[-1], {})
    for part in schema.get("anyOf", ()):
        yield from _listed(part, definitions)
    known = schema.get("enum", (True, False) if schema.get("type") == "boolean" else ())
    for value in (schema["const"],) if "const" in schema else known:
        if isinstance(value, str):
            yield value
        elif isinstance(value, bool | int | float):
            yield json.dumps(value)
