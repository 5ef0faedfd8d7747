"""Finds the calls in a model's response. The response is plain data or an object of the vendor's SDK."""

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
    """A call of a model, in the form for a registry.

    Attributes:
        name: The name of the registered tool.
        arguments: The arguments for its handler.
        exported: The name of the tool in the response.
        model_id: The id of the call in the response (Gemini and Ollama may have none).
        refusal: Why the call is impossible: its arguments are not JSON, or the tool was not exported.

    >>> from mcp_bridge import ToolRegistry
    >>> from mcp_bridge.export import Export
    >>> def double(number: int) -> int:
    ...     return 2 * number
    >>> registry = ToolRegistry()
    >>> _ = registry.tool(double)
    >>> response = {"content": [{"type": "tool_use", "id": "1", "name": "double", "input": {"number": 21}}]}
    >>> (call,) = Export(registry, "anthropic").calls(response)
    >>> call.name, call.arguments
    ('double', {'number': 21})
    """

    exported: str
    model_id: str | None = None
    refusal: CallError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RawCall:
    """A call as the response has it. `arguments` is an object or its JSON text, and `id` may be missing."""

    id: str | None
    name: str
    arguments: Any


def get_field(value: Any, *names: str) -> Any:
    """Return the first of these fields of a mapping or an object, or None."""
    for name in names:
        field = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
        if field is not None:
            return field
    return None


def list_items(response: Any, *path: str) -> list[Any]:
    """Return the list at the end of `path`, and use the first item of each list on the way.

    `response` may also be a part of a response: the message in it, the list, or a single item.
    """
    value = response
    for name in path:
        inner = get_field(value, name)
        # A part of a response does not have the first fields of the path.
        if inner is None:
            continue
        value = inner
        if name != path[-1] and isinstance(inner, list | tuple):
            value = inner[0] if inner else None
    return list(value) if isinstance(value, list | tuple) else [value]


def parse_arguments(arguments: Any, tool: str) -> dict[str, Any]:
    """Return the arguments of a call as an object. If they are missing, it is empty.

    Raises InvalidArguments for text without JSON, and for JSON without an object.
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
