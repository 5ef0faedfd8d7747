"""Calls in a model's response, which is plain data or an object of the vendor's SDK."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcp_bridge._contracts.errors import CallError, InvalidArguments
from mcp_bridge._contracts.tool import ToolCall
from mcp_bridge._json_schema.type_sets import get_type


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall(ToolCall):
    """A call for the registry: `name` is the registered tool's, `arguments` are what its handler receives.

    `exported` is the name that the model used, and `model_id` the id that it gave (Gemini and Ollama may give none).
    `refusal` is why the call is impossible: arguments that are not JSON, or a tool that was not exported.
    """

    exported: str
    model_id: str | None = None
    refusal: CallError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RawCall:
    """A call as it is in the response: `arguments` is an object or its JSON text, `id` may be missing."""

    id: str | None
    name: str
    arguments: Any


def get_field(value: Any, *names: str) -> Any:
    """The first of these fields that a mapping or an object has, or None."""
    for name in names:
        field = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
        if field is not None:
            return field
    return None


def list_items(response: Any, *path: str) -> list[Any]:
    """The list at the end of `path`, with the first item of each list on the way.

    Accepts a whole response, the message in it, the list, or a single item.
    """
    value = response
    for name in path:
        if (inner := get_field(value, name)) is not None:
            is_choice = name != path[-1] and isinstance(inner, list | tuple)
            value = next(iter(inner), None) if is_choice else inner
    return list(value) if isinstance(value, list | tuple) else [value]


def parse_arguments(arguments: Any, tool: str) -> dict[str, Any]:
    """The arguments of a call as an object; missing ones are an empty object.

    Raises InvalidArguments for text that is not JSON, and for JSON that is not an object.
    """
    value = _parse_json(arguments, tool) if isinstance(arguments, str | bytes) else arguments
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return dict(value)
    raise InvalidArguments([f"$: expected an object, got {get_type(value)}"], tool=tool)


def _parse_json(text: str | bytes, tool: str) -> Any:
    if not text.strip():
        return None
    try:
        return json.loads(text, parse_constant=_reject_constant)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InvalidArguments([f"$: the arguments are not JSON: {reason}"], tool=tool) from error


def _reject_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not a JSON value")
