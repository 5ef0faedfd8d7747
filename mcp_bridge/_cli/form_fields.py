"""The fields of a form, as a user fills them in at a terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mcp_bridge._cli.choices import Choice, find_choice, number_choices
from mcp_bridge._json_schema.forms import SINGLE_PROPERTY, FormSchema, create_form

YES, NO = "yes", "no"
CONFIRMATION = (Choice(YES, "1", "Yes", ("y", "true")), Choice(NO, "2", "No", ("n", "false")))
_FORMATS = {
    "date": "a date, such as 2026-01-31",
    "date-time": "a date and time, such as 2026-01-31T18:00:00Z",
    "email": "an email address",
    "uri": "a URL",
}
_TYPES = {"string": "text", "integer": "a whole number", "number": "a number"}
_BOUNDS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
}


@dataclass(frozen=True)
class FormField:
    """A property of a form. `schema` is its schema for clients, and `check` is a form with only this property."""

    name: str
    schema: Mapping[str, Any]
    is_required: bool
    check: FormSchema

    @property
    def heading(self) -> str:
        """The title or name, and the description. The single field of a form has no name of its own."""
        title = self.schema.get("title")
        if not title and self.name != SINGLE_PROPERTY:
            title = self.name
        return ": ".join(filter(None, (title, self.schema.get("description"))))

    @cached_property
    def choices(self) -> Sequence[Choice]:
        """The choices of a boolean, a choice or a multiple choice; empty for other fields."""
        if self.schema["type"] == "boolean":
            return CONFIRMATION
        source = self.schema.get("items", self.schema)
        pairs = source.get("oneOf") or source.get("anyOf")
        if pairs:
            return number_choices((pair["const"], pair["title"]) for pair in pairs)
        values = source.get("enum", ())
        return number_choices(zip(values, source.get("enumNames", values), strict=True))

    @property
    def instruction(self) -> str:
        """The text for the user: what to type, and the effect of an empty line."""
        if self.schema["type"] == "array":
            input_text = "the numbers of your choices, separated by commas"
        elif self.choices:
            input_text = "the number of your choice"
        else:
            input_text = _FORMATS.get(self.schema.get("format", ""), _TYPES[self.schema["type"]])
            bounds = [text.format(self.schema[key]) for key, text in _BOUNDS.items() if key in self.schema]
            if bounds:
                input_text += f" ({', '.join(bounds)})"
        if "default" in self.schema:
            effect = f"means {self._format_value(self.schema['default'])}"
        else:
            effect = "cancels" if self.is_required else "leaves it out"
        return f"Type {input_text}. An empty line {effect}."

    def parse_line(self, line: str) -> Any:
        """Return the value in a line. Raises ValueError with the problem."""
        value = self._parse_line(line)
        problems = self.check.list_problems({self.name: value})
        if problems:
            raise ValueError("; ".join(problem.partition(": ")[2] or problem for problem in problems))
        return value

    def _parse_line(self, line: str) -> Any:
        value_type = self.schema["type"]
        if value_type == "array":
            values = [self._choose(text) for text in line.split(",") if text.strip()]
            # A choice that is typed twice counts once.
            return list(dict.fromkeys(values))
        if value_type == "boolean":
            return self._choose(line) == YES
        if self.choices:
            return self._choose(line)
        if value_type == "string":
            return line
        try:
            number = int(line) if value_type == "integer" else float(line)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise ValueError(f"'{line[:50]}' is not {_TYPES[value_type]}")
        return number

    def _choose(self, text: str) -> str:
        choice = find_choice(self.choices, text)
        if choice is None:
            raise ValueError(f"'{text.strip()[:50]}' is not one of the choices")
        return choice.value

    def _format_value(self, value: Any) -> str:
        if isinstance(value, bool):
            return "Yes" if value else "No"
        if isinstance(value, list):
            return ", ".join(map(self._format_value, value)) or "none"
        for choice in self.choices:
            if choice.value == value:
                return choice.label
        return str(value)


def list_fields(client_schema: Mapping[str, Any], schema: Mapping[str, Any]) -> list[FormField]:
    """Return the fields of a form in their order.

    `client_schema` is the simplified schema for clients, and `schema` is the full one for checking the values.
    """
    required = client_schema.get("required", ())
    fields: list[FormField] = []
    for name, field_schema in client_schema["properties"].items():
        check = create_form({"type": "object", "properties": {name: schema["properties"][name]}, "required": [name]})
        fields.append(FormField(name, field_schema, name in required, check))
    return fields
