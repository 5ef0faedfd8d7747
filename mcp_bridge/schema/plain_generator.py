"""pydantic's JSON Schema generator without the titles it makes up, and without defaults that JSON does not have.

Imports pydantic, so it is itself imported late, by `generation`.
"""

from __future__ import annotations

import json
from enum import Enum
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core import PydanticSerializationError


class PlainGenerator(GenerateJsonSchema):
    """Titles that an author gave stay; a member of an enum in a `Literal` is refused where it would be an argument."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - declared by pydantic

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._enums: set[str] = set()

    def generate(self, schema: Any, mode: JsonSchemaMode = "validation") -> JsonSchemaValue:
        """The finished schema. Enums get their titles outside of `enum_schema`, so they lose them here."""
        made = super().generate(schema, mode)
        for part in (made, *made.get("$defs", {}).values()):
            if part.get("title") in self._enums and ("enum" in part or "const" in part):
                del part["title"]
        return made

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Never: a title made of the name says nothing new."""
        return False

    def model_schema(self, schema: Any) -> JsonSchemaValue:
        """A model."""
        return _untitled(super().model_schema(schema), schema["cls"])

    def dataclass_schema(self, schema: Any) -> JsonSchemaValue:
        """A dataclass."""
        return _untitled(super().dataclass_schema(schema), schema["cls"])

    def typed_dict_schema(self, schema: Any) -> JsonSchemaValue:
        """A TypedDict."""
        return _untitled(super().typed_dict_schema(schema), schema["cls"])

    def enum_schema(self, schema: Any) -> JsonSchemaValue:
        """An enum."""
        self._enums.add(schema["cls"].__name__)
        return super().enum_schema(schema)

    def literal_schema(self, schema: Any) -> JsonSchemaValue:
        """A Literal. pydantic shows the values of enum members, but accepts only the members."""
        members = [item for item in schema["expected"] if isinstance(item, Enum) and not isinstance(item, str | int)]
        if members and self.mode == "validation":
            return self.handle_invalid_for_json_schema(schema, f"a Literal of {members[0]!s}, not of its value")
        return super().literal_schema(schema)

    def encode_default(self, dft: Any) -> Any:
        """A default as JSON. Raises PydanticSerializationError, upon which it is left out."""
        try:
            made = super().encode_default(dft)
            json.dumps(made, allow_nan=False)
        except ValueError as error:
            raise PydanticSerializationError(str(error)) from error
        return made


def _untitled(made: JsonSchemaValue, cls: type) -> JsonSchemaValue:
    """Without the title that is only the name of the class."""
    config = getattr(cls, "model_config", None) or getattr(cls, "__pydantic_config__", None) or {}
    if "title" not in config and made.get("title") == cls.__name__:
        del made["title"]
    return made
