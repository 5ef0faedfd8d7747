"""Generates JSON Schemas of Python types with pydantic, without its generated titles and unsuitable defaults.

Importing pydantic takes 80 ms, so other modules import this one late.
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
    """Return the schema of the JSON for results with this return annotation.

    It is empty, so that results are not validated, if pydantic does not support the type, or if the type is not
    specific: no annotation, Any, None, object, text, bytes, content blocks, ToolResult, and iterators.
    """
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in _AWAITABLES:
        return generate_output_schema(arguments[-1])
    if NeedsInput in arguments and origin in (typing.Union, types.UnionType):
        # Clients never get a NeedsInput as a result.
        members = tuple(member for member in arguments if member is not NeedsInput)
        return generate_output_schema(typing.Union[members])  # noqa: UP007
    if origin is typing.Annotated and arguments[0] in UNTYPED:
        return {}
    if annotation in UNTYPED or origin in _STREAMS or annotation in _STREAMS:
        return {}
    if is_untyped_list(annotation) or _has_content(annotation):
        return {}
    try:
        return generate_schema(TypeAdapter(annotation).json_schema, "serialization")
    except UNSUPPORTED_TYPE:
        return {}


def _has_content(annotation: Any) -> bool:
    """Whether values of a type, or of a member of a union, list or tuple, are sent as content blocks."""
    arguments = typing.get_args(annotation)
    if isinstance(annotation, type) and not arguments:
        is_content = issubclass(annotation, Content | NeedsInput | ToolResult | Result | bytes)
        return is_content or is_sdk_content(annotation)
    return any(map(_has_content, arguments))


def generate_schema(make: Callable[..., dict[str, Any]], mode: JsonSchemaMode) -> dict[str, Any]:
    """Return the schema of `make`, a method of a model or adapter, with inlined definitions.

    A parameter may have the default None although its annotation does not allow it. Such defaults are left out.
    """
    schema = make(mode=mode, schema_generator=PlainGenerator)
    for subschema in schema.get("properties", {}).values():
        if subschema.get("default", ...) is None and "null" not in list_types(subschema, schema):
            del subschema["default"]
    return inline_definitions(schema)


class PlainGenerator(GenerateJsonSchema):
    """Generates schemas without the titles of pydantic, and without defaults outside of JSON.

    It rejects enum members in a `Literal` of an argument, because pydantic shows their values, but accepts only the
    members.
    """

    _ENUM_KEYWORDS: ClassVar = frozenset({"enum", "const"})
    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - declared by pydantic

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._enums: set[str] = set()

    def generate_inner(self, schema: Any) -> JsonSchemaValue:
        """Leave out the format and pattern of results, because a mismatch would reject the whole result.

        Annotations guarantee neither. A `datetime` may be naive, an `EmailStr` may be any text, a `Decimal` may be
        written as `1E+5`, and `\\w` matches the letters of all languages in pydantic, but not in JSON Schema.
        """
        json_schema = super().generate_inner(schema)
        if self.mode == "serialization":
            json_schema.pop("format", None)
            json_schema.pop("pattern", None)
        return json_schema

    def generate(self, schema: Any, mode: JsonSchemaMode = "validation") -> JsonSchemaValue:
        """Remove the titles of enums, which pydantic adds after `enum_schema`."""
        root = super().generate(schema, mode)
        for json_schema in (root, *root.get("$defs", {}).values()):
            if json_schema.get("title") in self._enums and not self._ENUM_KEYWORDS.isdisjoint(json_schema):
                del json_schema["title"]
        return root

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Return False, because a title made from the name of a field adds nothing for a model."""
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
        """Return a default as JSON. pydantic leaves the default out on PydanticSerializationError."""
        try:
            default = super().encode_default(dft)
            json.dumps(default, allow_nan=False)
        except ValueError as error:
            raise PydanticSerializationError(str(error)) from error
        return default


class FormGenerator(PlainGenerator):
    """Generates schemas for forms: enums have a title for each choice, from their docstring or from members' names."""

    _ENUM_KEYWORDS: ClassVar = frozenset({"enum", "const", "oneOf"})

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._descriptions: dict[str, str] = {}

    def generate(self, schema: Any, mode: JsonSchemaMode = "validation") -> JsonSchemaValue:
        """Describe enums by their docstrings, without sections such as `Attributes:`."""
        root = super().generate(schema, mode)
        for json_schema in (root, *root.get("$defs", {}).values()):
            docstring = json_schema.get("description")
            if docstring in self._descriptions:
                json_schema["description"] = self._descriptions[docstring]
        return root

    def enum_schema(self, schema: Any) -> JsonSchemaValue:
        """Add a title for each choice, if titles are more informative than the values."""
        json_schema = super().enum_schema(schema)
        members: list[Enum] = schema["members"]
        description, titles = parse_docstring(schema["cls"])
        self._descriptions[inspect.getdoc(schema["cls"]) or ""] = description
        if all(isinstance(item.value, str) for item in members) and (titles or any(map(_has_own_name, members))):
            del json_schema["enum" if "enum" in json_schema else "const"]
            json_schema["oneOf"] = [
                {"const": item.value, "title": titles.get(item.name) or _to_title(item)} for item in members
            ]
        return json_schema


def _has_own_name(member: Enum) -> bool:
    """Whether the name of a member differs from its value in more than capitals and separators."""
    return _to_title(member) != str(member.value).replace("-", " ").replace("_", " ").capitalize()


def _to_title(member: Enum) -> str:
    return member.name.replace("_", " ").capitalize()


def _remove_class_title(schema: JsonSchemaValue, cls: type) -> JsonSchemaValue:
    """Remove the title from the name of the class."""
    config = getattr(cls, "model_config", None) or getattr(cls, "__pydantic_config__", None) or {}
    if "title" not in config and schema.get("title") == cls.__name__:
        del schema["title"]
    return schema
