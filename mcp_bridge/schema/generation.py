"""JSON Schemas of Python types as clients like to read them: no made-up titles, no defaults that do not fit.

pydantic generates them and is imported when the first one is asked for.
"""

from __future__ import annotations

import collections.abc
import functools
import inspect
import json
import types
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Literal

from mcp_bridge.contracts.content import Content
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
        return issubclass(annotation, Content | ToolResult | Result | bytes)
    return any(_is_content(part) for part in parts)


def generate(make: Callable[..., dict[str, Any]], mode: Mode) -> dict[str, Any]:
    """The schema that `make` (a model's or an adapter's method) answers, in this project's taste."""
    schema = make(mode=mode, schema_generator=_generator())
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
    return schema.get("type", "null") == "null"


@functools.cache
def _generator() -> Any:
    from pydantic.json_schema import GenerateJsonSchema
    from pydantic_core import PydanticSerializationError

    def untitled(made: dict[str, Any], schema: Any) -> dict[str, Any]:
        """Without the title that is only the name of the class."""
        cls = schema["cls"]
        config = getattr(cls, "model_config", None) or getattr(cls, "__pydantic_config__", None) or {}
        if "title" not in config and made.get("title") == cls.__name__:
            del made["title"]
        return made

    class Plain(GenerateJsonSchema):
        """Keeps the titles that an author gave; leaves out defaults that JSON does not have."""

        ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.enums: set[str] = set()

        def generate(self, schema: Any, mode: Mode = "validation") -> dict[str, Any]:
            made = super().generate(schema, mode)
            for part in (made, *made.get("$defs", {}).values()):
                if part.get("title") in self.enums and ("enum" in part or "const" in part):
                    del part["title"]
            return made

        def model_schema(self, schema: Any) -> Any:
            return untitled(super().model_schema(schema), schema)

        def dataclass_schema(self, schema: Any) -> Any:
            return untitled(super().dataclass_schema(schema), schema)

        def typed_dict_schema(self, schema: Any) -> Any:
            return untitled(super().typed_dict_schema(schema), schema)

        def enum_schema(self, schema: Any) -> Any:
            self.enums.add(schema["cls"].__name__)  # its title is added after this method
            return super().enum_schema(schema)

        def literal_schema(self, schema: Any) -> Any:
            members = [
                item for item in schema["expected"] if isinstance(item, Enum) and not isinstance(item, str | int)
            ]
            if members and self.mode == "validation":  # pydantic writes their values but accepts only the members
                return self.handle_invalid_for_json_schema(schema, f"a Literal of {members[0]!s}, not of its value")
            return super().literal_schema(schema)

        def encode_default(self, dft: Any) -> Any:
            try:
                made = super().encode_default(dft)
                json.dumps(made, allow_nan=False)
            except ValueError as error:
                raise PydanticSerializationError(str(error)) from error
            return made

    return Plain
