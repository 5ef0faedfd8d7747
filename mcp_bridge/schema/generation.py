"""JSON Schemas of Python types as clients like to read them: no made-up titles, no defaults that do not fit.

pydantic generates them and is imported when the first one is asked for.
"""

from __future__ import annotations

import collections.abc
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal

from mcp_bridge.contracts.content import Content
from mcp_bridge.contracts.question import NeedsInput
from mcp_bridge.contracts.results import Result
from mcp_bridge.contracts.tool import ToolResult

Mode = Literal["validation", "serialization"]
_WORDLESS = (str, bytes, bytearray, None, type(None), Any, object, inspect.Parameter.empty)
_AWAITABLES = (types.CoroutineType, collections.abc.Coroutine, collections.abc.Awaitable)
_STREAMS = (
    collections.abc.Iterator,
    collections.abc.Generator,
    collections.abc.AsyncIterator,
    collections.abc.AsyncGenerator,
)


def refusals() -> tuple[type[Exception], ...]:
    """What pydantic raises for a type that it cannot handle, or that JSON Schema cannot describe."""
    from pydantic.errors import PydanticUserError
    from pydantic_core import SchemaError

    return (PydanticUserError, SchemaError, TypeError, NameError)


def output_schema(annotation: Any) -> dict[str, Any]:
    """The schema of what a function returns, as its JSON looks.

    Empty where the type says nothing (missing, Any, None, object, text, bytes, content blocks, ToolResult,
    streams), and where pydantic cannot describe it: such a tool works, its answers are just not validated.
    """
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in _AWAITABLES:
        return output_schema(parts[-1])
    if NeedsInput in parts and origin in (typing.Union, types.UnionType):  # a question is no answer
        return output_schema(typing.Union[tuple(part for part in parts if part is not NeedsInput)])  # noqa: UP007
    if origin is list and parts == (Any,):
        return {}  # anything, content blocks among it
    if origin is typing.Annotated and parts[0] in _WORDLESS:
        return {}
    if annotation in _WORDLESS or origin in _STREAMS or annotation in _STREAMS or _is_content(annotation):
        return {}
    from pydantic import TypeAdapter

    try:
        return generate(TypeAdapter(annotation).json_schema, "serialization")
    except refusals():
        return {}


def _is_content(annotation: Any) -> bool:
    """Content blocks, results and bytes, alone or within a union, list or tuple: nothing that a schema describes."""
    parts = typing.get_args(annotation)
    if isinstance(annotation, type) and not parts:
        return issubclass(annotation, Content | NeedsInput | ToolResult | Result | bytes)
    return any(_is_content(part) for part in parts)


def generate(make: Callable[..., dict[str, Any]], mode: Mode) -> dict[str, Any]:
    """The schema that `make` (a model's or an adapter's method) answers, in this project's taste."""
    from mcp_bridge.schema.plain_generator import PlainGenerator

    schema = make(mode=mode, schema_generator=PlainGenerator)
    for part in schema.get("properties", {}).values():
        if part.get("default", ...) is None and not _allows_null(part, schema.get("$defs", {})):
            del part["default"]
    return schema


def _allows_null(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> bool:
    """Whether null fits, by the keywords that pydantic writes."""
    if "$ref" in schema:
        return _allows_null(definitions[schema["$ref"].rsplit("/", 1)[-1]], definitions)
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            return any(_allows_null(part, definitions) for part in schema[keyword])
    if "enum" in schema or "const" in schema:
        return None in schema.get("enum", [schema.get("const", ...)])
    return bool(schema.get("type", "null") == "null")
