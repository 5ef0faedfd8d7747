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
_KINDS = {"string": "text", "integer": "a whole number", "number": "a number"}
_BOUNDS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
}


@dataclass(frozen=True)
class FormField:
    """A property of a form. `schema` is what clients are sent, `check` the form of this property alone."""

    name: str
    schema: Mapping[str, Any]
    is_required: bool
    check: FormSchema

    @property
    def heading(self) -> str:
        """The title or name, and the description. The single field of a form has no name of its own."""
        title = self.schema.get("title") or ("" if self.name == SINGLE_PROPERTY else self.name)
        return ": ".join(part for part in (title, self.schema.get("description")) if part)

    @cached_property
    def choices(self) -> Sequence[Choice]:
        """The choices of a boolean, a choice or a multiple choice; empty for other fields."""
        if self.schema["type"] == "boolean":
            return CONFIRMATION
        source = self.schema.get("items", self.schema)
        if pairs := source.get("oneOf") or source.get("anyOf"):
            return number_choices((pair["const"], pair["title"]) for pair in pairs)
        values = source.get("enum", ())
        return number_choices(zip(values, source.get("enumNames", values), strict=True))

    @property
    def is_canceled_by_empty_line(self) -> bool:
        return self.is_required and "default" not in self.schema

    @property
    def instruction(self) -> str:
        """What to type, and what an empty line means."""
        if self.schema["type"] == "array":
            wanted = "the numbers of your choices, separated by commas"
        elif self.choices:
            wanted = "the number of your choice"
        else:
            wanted = _FORMATS.get(self.schema.get("format", ""), _KINDS[self.schema["type"]])
            if bounds := [text.format(self.schema[key]) for key, text in _BOUNDS.items() if key in self.schema]:
                wanted += f" ({', '.join(bounds)})"
        return f"Type {wanted}. An empty line {self._describe_empty_line()}."

    def parse_line(self, line: str) -> Any:
        """Return the value that was typed. Raises ValueError with the problem."""
        value = self._parse_line(line)
        if problems := self.check.list_problems({self.name: value}):
            raise ValueError("; ".join(problem.partition(": ")[2] or problem for problem in problems))
        return value

    def _parse_line(self, line: str) -> Any:
        kind = self.schema["type"]
        if kind == "array":
            return list(dict.fromkeys(self._choose(part).value for part in line.split(",") if part.strip()))
        if self.choices:
            value = self._choose(line).value
            return value == YES if kind == "boolean" else value
        return line if kind == "string" else _read_number(line, kind)

    def _choose(self, typed: str) -> Choice:
        choice = find_choice(self.choices, typed)
        if choice is None:
            raise ValueError(f"'{typed.strip()[:50]}' is not one of the choices")
        return choice

    def _describe_empty_line(self) -> str:
        if "default" in self.schema:
            return f"means {self._format_value(self.schema['default'])}"
        return "cancels" if self.is_canceled_by_empty_line else "leaves it out"

    def _format_value(self, value: Any) -> str:
        if isinstance(value, bool):
            return "Yes" if value else "No"
        if isinstance(value, list):
            return ", ".join(map(self._format_value, value)) or "none"
        return next((choice.label for choice in self.choices if choice.value == value), str(value))


def list_fields(sent: Mapping[str, Any], full: Mapping[str, Any]) -> list[FormField]:
    """Return the fields of a form in order, from the schema that clients are sent and from the full one."""
    required = sent.get("required", ())
    checks = {
        name: create_form({"type": "object", "properties": {name: part}, "required": [name]})
        for name, part in full["properties"].items()
    }
    return [FormField(name, part, name in required, checks[name]) for name, part in sent["properties"].items()]


def _read_number(line: str, kind: str) -> float:
    try:
        number = int(line) if kind == "integer" else float(line)
    except ValueError:
        raise ValueError(f"'{line[:50]}' is not {_KINDS[kind]}") from None
    if not math.isfinite(number):
        raise ValueError(f"'{line[:50]}' is not {_KINDS[kind]}")
    return number
