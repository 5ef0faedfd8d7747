"""Generates JSON Schemas of Python types: without invented titles, and without defaults that do not fit.

Imports pydantic, so it is imported late.
"""

from __future__ import annotations

import inspect
import json
import types
import typing
from collections import abc
from collections.abc import Callable
from enum import Enum
from typing import Any, ClassVar, Final

from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core import PydanticSerializationError, SchemaError

from mcp_bridge._contracts.content import Content, is_sdk_content
from mcp_bridge._contracts.handlers import NeedsInput
from mcp_bridge._contracts.tool import ToolResult
from mcp_bridge._contracts.tool_use_results import Result
from mcp_bridge._json_schema.callables import parse_docstring
from mcp_bridge._json_schema.inlining import inline_definitions
from mcp_bridge._json_schema.plain_types import UNTYPED, is_untyped_list
from mcp_bridge._json_schema.type_sets import list_types

UNSUPPORTED_TYPE: Final = (PydanticUserError, SchemaError, TypeError, NameError)
"""What pydantic raises for a type that it does not support, or that JSON Schema cannot describe."""
_AWAITABLES = (types.CoroutineType, abc.Coroutine, abc.Awaitable)
_STREAMS = (abc.Iterator, abc.Generator, abc.AsyncIterator, abc.AsyncGenerator)


def generate_output_schema(annotation: Any) -> dict[str, Any]:
    """The schema of what a function returns, as JSON.

    Empty if the type says nothing (missing, Any, None, object, text, bytes, content blocks, ToolResult, streams) or
    pydantic does not support it: the results of such a tool are not validated.
    """
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in _AWAITABLES:
        return generate_output_schema(parts[-1])
    if NeedsInput in parts and origin in (typing.Union, types.UnionType):  # a question is not a result
        return generate_output_schema(typing.Union[tuple(part for part in parts if part is not NeedsInput)])  # noqa: UP007
    if is_untyped_list(annotation):
        return {}
    if origin is typing.Annotated and parts[0] in UNTYPED:
        return {}
    if annotation in UNTYPED or origin in _STREAMS or annotation in _STREAMS or _has_content(annotation):
        return {}
    try:
        return generate_schema(TypeAdapter(annotation).json_schema, "serialization")
    except UNSUPPORTED_TYPE:
        return {}


def _has_content(annotation: Any) -> bool:
    """Whether a type is, or has in a union, list or tuple, something that is sent as content blocks."""
    parts = typing.get_args(annotation)
    if isinstance(annotation, type) and not parts:
        is_content = issubclass(annotation, Content | NeedsInput | ToolResult | Result | bytes)
        return is_content or is_sdk_content(annotation)
    return any(_has_content(part) for part in parts)


def generate_schema(make: Callable[..., dict[str, Any]], mode: JsonSchemaMode) -> dict[str, Any]:
    """The schema that `make` returns, a method of a model or adapter, with inlined definitions.

    Null defaults are left out where null does not fit.
    """
    schema = make(mode=mode, schema_generator=PlainGenerator)
    for part in schema.get("properties", {}).values():
        if part.get("default", ...) is None and "null" not in list_types(part, schema):
            del part["default"]
    return inline_definitions(schema)


class PlainGenerator(GenerateJsonSchema):
    """Keeps only titles that an author has given, and leaves out defaults that are not JSON.

    Rejects enum members in a `Literal` of an argument: pydantic shows their values, but accepts only the members.
    """

    _ENUM_KEYWORDS: ClassVar = frozenset({"enum", "const"})
    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - declared by pydantic

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._enums: set[str] = set()

    def generate_inner(self, schema: Any) -> JsonSchemaValue:
        """Leave out the format and pattern of results, for which the whole result would be rejected.

        Annotations guarantee neither: a `datetime` may be naive, an `EmailStr` any text, a `Decimal` is written as
        `1E+5`, and `\\w` matches the letters of all languages in pydantic, but not in JSON Schema.
        """
        generated = super().generate_inner(schema)
        if self.mode == "serialization":
            generated.pop("format", None)
            generated.pop("pattern", None)
        return generated

    def generate(self, schema: Any, mode: JsonSchemaMode = "validation") -> JsonSchemaValue:
        """Without the titles of enums, which pydantic adds after `enum_schema`."""
        generated = super().generate(schema, mode)
        for part in (generated, *generated.get("$defs", {}).values()):
            if part.get("title") in self._enums and not self._ENUM_KEYWORDS.isdisjoint(part):
                del part["title"]
        return generated

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Never: a title derived from the name says nothing new."""
        return False

    def model_schema(self, schema: Any) -> JsonSchemaValue:
        return _remove_class_title(super().model_schema(schema), schema["cls"])

    def dataclass_schema(self, schema: Any) -> JsonSchemaValue:
        return _remove_class_title(super().dataclass_schema(schema), schema["cls"])

    def typed_dict_schema(self, schema: Any) -> JsonSchemaValue:
        return _remove_class_title(super().typed_dict_schema(schema), schema["cls"])

    def enum_schema(self, schema: Any) -> JsonSchemaValue:
        self._enums.add(schema["cls"].__name__)
        return super().enum_schema(schema)

    def literal_schema(self, schema: Any) -> JsonSchemaValue:
        members = [item for item in schema["expected"] if isinstance(item, Enum) and not isinstance(item, str | int)]
        if members and self.mode == "validation":
            return self.handle_invalid_for_json_schema(schema, f"a Literal of {members[0]!s}, not of its value")
        return super().literal_schema(schema)

    def encode_default(self, dft: Any) -> Any:
        """A default as JSON. pydantic leaves the default out on PydanticSerializationError."""
        try:
            default = super().encode_default(dft)
            json.dumps(default, allow_nan=False)
        except ValueError as error:
            raise PydanticSerializationError(str(error)) from error
        return default


class FormGenerator(PlainGenerator):
    """Gives enums a title for each choice, from the docstring (`Attributes:`) or from the members' names."""

    _ENUM_KEYWORDS: ClassVar = frozenset({"enum", "const", "oneOf"})

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._descriptions: dict[str, str] = {}

    def generate(self, schema: Any, mode: JsonSchemaMode = "validation") -> JsonSchemaValue:
        """Describes enums by their docstrings without the sections."""
        generated = super().generate(schema, mode)
        for part in (generated, *generated.get("$defs", {}).values()):
            if (description := self._descriptions.get(part.get("description", ""))) is not None:
                part["description"] = description
        return generated

    def enum_schema(self, schema: Any) -> JsonSchemaValue:
        """With a title for each choice, if titles say more than the values."""
        generated = super().enum_schema(schema)
        members: list[Enum] = schema["members"]
        description, titles = parse_docstring(schema["cls"])
        self._descriptions[inspect.getdoc(schema["cls"]) or ""] = description
        if all(isinstance(item.value, str) for item in members) and (titles or any(map(_has_own_name, members))):
            del generated["enum" if "enum" in generated else "const"]
            generated["oneOf"] = [
                {"const": item.value, "title": titles.get(item.name) or _to_title(item)} for item in members
            ]
        return generated


def _has_own_name(member: Enum) -> bool:
    """Whether the name is more than the value in capitals."""
    return _to_title(member) != str(member.value).replace("-", " ").replace("_", " ").capitalize()


def _to_title(member: Enum) -> str:
    return member.name.replace("_", " ").capitalize()


def _remove_class_title(schema: JsonSchemaValue, cls: type) -> JsonSchemaValue:
    """Removes a title that is only the name of the class."""
    config = getattr(cls, "model_config", None) or getattr(cls, "__pydantic_config__", None) or {}
    if "title" not in config and schema.get("title") == cls.__name__:
        del schema["title"]
    return schema
