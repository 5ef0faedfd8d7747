"""pydantic's JSON Schema generator for forms: enums get a title for each choice where it says more than the value.

Imports pydantic, so it is itself imported late, by `forms`.
"""

from __future__ import annotations

import inspect
from enum import Enum
from typing import Any

from pydantic.json_schema import JsonSchemaMode, JsonSchemaValue

from mcp_bridge.schema.callables import documentation
from mcp_bridge.schema.plain_generator import PlainGenerator


class FormGenerator(PlainGenerator):
    """Titles come from the enum's docstring (`Attributes:`), else from the members' names."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._described: dict[str, str] = {}

    def generate(self, schema: Any, mode: JsonSchemaMode = "validation") -> JsonSchemaValue:
        """The finished schema. Enums get class name and docstring outside of `enum_schema`, so they lose them here."""
        made = super().generate(schema, mode)
        for part in (made, *made.get("$defs", {}).values()):
            if part.get("title") in self._enums and "oneOf" in part:
                del part["title"]
            if (words := self._described.get(part.get("description", ""))) is not None:
                part.update(description=words)
        return made

    def enum_schema(self, schema: Any) -> JsonSchemaValue:
        """An enum: the values, or each with a title."""
        made = super().enum_schema(schema)
        members: list[Enum] = schema["members"]
        words, notes = documentation(schema["cls"])
        self._described[inspect.getdoc(schema["cls"]) or ""] = words
        if all(isinstance(item.value, str) for item in members) and (notes or any(map(_says_more, members))):
            del made["enum" if "enum" in made else "const"]
            made["oneOf"] = [{"const": item.value, "title": notes.get(item.name) or _title(item)} for item in members]
        return made


def _says_more(member: Enum) -> bool:
    """Whether the name is more than the value in capitals."""
    return _title(member) != str(member.value).replace("-", " ").replace("_", " ").capitalize()


def _title(member: Enum) -> str:
    return member.name.replace("_", " ").capitalize()
