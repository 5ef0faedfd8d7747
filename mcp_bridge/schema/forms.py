"""Forms: what a person may be asked to fill in, from a type or a flat JSON Schema (client/elicitation, form mode).

The same form is sent to clients of every version in the words they know, checks what comes back, and makes an
instance of the asked type of it. pydantic is imported when the first type is asked for.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import orjson

from mcp_bridge.schema.callables import documentation
from mcp_bridge.schema.form_fields import form_field
from mcp_bridge.schema.formats import format_problems
from mcp_bridge.schema.generation import refusals
from mcp_bridge.schema.validator import Validator, complaints

if TYPE_CHECKING:
    from pydantic import TypeAdapter

RICH: Final = "2025-11-25"
"""The first version with defaults for every kind, titles of choices and several choices; the only one whose
description of forms has patterns."""
SINGLE: Final = "value"
"""The property of a form that asks for a single value."""
_KNOWN = 256
"""How many types' forms are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """Makes an instance of what was typed in. `blanks` are filled with None: nothing was said."""

    adapter: TypeAdapter[Any]
    single: bool
    blanks: tuple[str, ...]

    def read(self, given: Mapping[str, Any]) -> Any:
        from pydantic_core import to_json

        # JSON rather than Python, so that text makes dates and enums in strict models too
        if not self.single:
            return self.adapter.validate_json(to_json({**dict.fromkeys(self.blanks), **given}))
        if SINGLE in given:
            return self.adapter.validate_json(to_json(given[SINGLE]))
        default = self.adapter.get_default_value()
        return default.value if default is not None else None


@dataclass(frozen=True, slots=True, eq=False)
class FormSchema:
    """A form. `schema` is the `requestedSchema` of 2026-07-28; it is shared between calls, so nobody may change it."""

    schema: dict[str, Any]
    _patterns: Mapping[str, str] = field(repr=False)
    _validator: Validator = field(repr=False)
    _reader: _Reader | None = field(repr=False)

    @property
    def whole(self) -> dict[str, Any]:
        """All that an answer is checked against, as a schema that `form_of` makes the same form of."""
        checked = self._validator.schema["properties"]
        properties = {name: {**part, **checked[name]} for name, part in self.schema["properties"].items()}
        return {**self.schema, "properties": properties}

    def for_version(self, version: str) -> dict[str, Any]:
        """The `requestedSchema` for clients of another version; an empty one stands for the newest.

        Before 2025-11-25 choices have their titles in `enumNames` and only booleans have defaults. Raises ValueError
        for several choices, which these cannot read.
        """
        if not version or version > RICH:
            return self.schema
        properties = self.schema["properties"]
        if version < RICH:
            return {**self.schema, "properties": {name: _older(name, part) for name, part in properties.items()}}
        patterns = {name: {**properties[name], "pattern": pattern} for name, pattern in self._patterns.items()}
        return {**self.schema, "properties": {**properties, **patterns}}

    def given(self, content: Mapping[str, Any] | None) -> dict[str, Any]:
        """What was asked for and answered: without what nobody asked for, and without null for what was left out.

        Clients send null for a field that was left empty, although the specification has none.
        """
        required, properties = self.schema.get("required", ()), self.schema["properties"]
        items = (content or {}).items()
        return {key: value for key, value in items if key in properties and (value is not None or key in required)}

    def check(self, content: Any) -> list[str]:
        """A line for each problem with an answer, such as `$.age: required field missing`; empty when it fits."""
        if content is not None and not isinstance(content, Mapping):
            return [f"$: expected type object, got {type(content).__name__}"]
        given = self.given(content)
        lines = [*self._validator.check(given).errors, *format_problems(self.schema["properties"], given)]
        return lines or self._type_problems(given)

    def _type_problems(self, given: Mapping[str, Any]) -> list[str]:
        """What the type wants beyond its schema, such as an author's own validators."""
        if self._reader is None:
            return []
        from pydantic import ValidationError
        from pydantic_core import PydanticSerializationError

        try:
            self._reader.read(given)
        except ValidationError as error:
            start = (SINGLE,) if self._reader.single else ()
            return [f"{_path((*start, *item['loc']))}: {item['msg']}" for item in error.errors(include_url=False)]
        except PydanticSerializationError as error:  # half a character: JSON can say it, text cannot
            return [f"$: {error}"]
        return []

    def read(self, content: Mapping[str, Any] | None) -> Any:
        """An instance of the asked type, the bare value where it is a single one, else what `given` makes of `content`.

        Raises ValueError for content that `check` finds fault with.
        """
        given = self.given(content)
        return given if self._reader is None else self._reader.read(given)


def form_of(asked: Any) -> FormSchema:
    """The form that asks for this: a type, a JSON Schema as a mapping, or None for a form with nothing to fill in.

    Raises ValueError naming the property that no form can have, and what to do.
    """
    if asked is None or isinstance(asked, Mapping):
        return _form({"type": "object", "properties": {}} if asked is None else asked)
    try:
        hash(asked)
    except TypeError:  # an Annotated with metadata that has no hash
        return _of_type(asked)
    return _known(asked, repr(asked))


@functools.lru_cache(maxsize=_KNOWN)
def _known(asked: Any, _shown: str) -> FormSchema:
    """The form of a type, made once. How it is written counts: Literals are equal in any order, forms are not."""
    return _of_type(asked)


def _of_type(asked: Any) -> FormSchema:
    from pydantic import TypeAdapter

    from mcp_bridge.schema.form_generator import FormGenerator

    if isinstance(asked, str):
        raise ValueError(f"{asked!r} cannot be asked for in a form: it is text. Give the type itself.")  # noqa: TRY004
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(asked)
        schema = adapter.json_schema(mode="validation", schema_generator=FormGenerator)
    except refusals() as error:
        reason = str(error).splitlines()[0].split(". ")[0].rstrip(".")
        raise ValueError(f"{_called(asked)} cannot be asked for in a form: {reason}. Ask for another type.") from error
    schema = {**schema.get("$defs", {}).get(schema.get("$ref", "").rsplit("/", 1)[-1], {}), **schema}
    if "properties" not in schema and schema.get("type") != "object":
        required = [] if "default" in schema else [SINGLE]
        frame = {"type": "object", "required": required, "$defs": schema.get("$defs", {})}
        return _form({**frame, "properties": {SINGLE: schema}}, adapter, single=True)
    if "properties" not in schema:
        raise ValueError(f"{_called(asked)} cannot be asked for in a form: its names are not known. Name its fields.")
    return _form(_described(asked, schema), adapter)


def _called(asked: Any) -> str:
    return asked.__qualname__ if isinstance(asked, type) else repr(asked)


def _described(asked: Any, schema: dict[str, Any]) -> dict[str, Any]:
    """With the descriptions that the docstring has for its fields, where they have none of their own."""
    notes = documentation(asked)[1] if isinstance(asked, type) else {}
    parts = schema["properties"]
    described = {name: {"description": notes[name], **part} for name, part in parts.items() if name in notes}
    return {**schema, "properties": {**parts, **described}}


def _form(schema: Mapping[str, Any], adapter: TypeAdapter[Any] | None = None, *, single: bool = False) -> FormSchema:
    """The form of an object schema."""
    whole = _sound(schema)
    properties, listed = whole["properties"], whole.get("required", [])
    definitions = {**whole.get("definitions", {}), **whole.get("$defs", {})}
    fields = {name: form_field(name, part, definitions) for name, part in properties.items()}
    for name in listed:
        if name not in fields:
            raise ValueError(f"'{name}' is required in this form, but is not among its properties. Add or remove it.")
    # what may be null may be left out: forms have no null
    required = [name for name in listed if not fields[name].nullable]
    blanks = tuple(name for name in listed if fields[name].nullable)
    return FormSchema(
        _object({name: item.sent for name, item in fields.items()}, required),
        {name: item.checked["pattern"] for name, item in fields.items() if "pattern" in item.checked},
        Validator(_object({name: item.checked for name, item in fields.items()}, required)),
        _Reader(adapter=adapter, single=single, blanks=blanks) if adapter is not None else None,
    )


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _sound(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A copy, surely JSON, surely a JSON Schema, surely of an object."""
    try:
        made: dict[str, Any] = orjson.loads(orjson.dumps(dict(schema)))
    except (TypeError, ValueError) as error:
        raise ValueError(f"This schema cannot be a form: it is not JSON ({error}). Mend the value.") from error
    if made.get("type") != "object" or not isinstance(made.get("properties"), dict):
        raise ValueError(
            'This schema cannot be a form: a form is {"type": "object", "properties": {...}}. '
            'For a single value give its type, or one property such as {"value": {"type": "string"}}.'
        )
    if problems := complaints(made):
        raise ValueError(f"This schema cannot be a form: {'; '.join(problems)}.")
    return made


def _older(name: str, part: Mapping[str, Any]) -> dict[str, Any]:
    """One property for the versions before `RICH`."""
    if part["type"] == "array":
        raise ValueError(f"'{name}' cannot be asked of this client: before {RICH} forms have no lists of choices.")
    kept = {key: value for key, value in part.items() if key != "default" or part["type"] == "boolean"}
    pairs = kept.pop("oneOf", None)
    if pairs is not None:
        kept |= {"enum": [item["const"] for item in pairs], "enumNames": [item["title"] for item in pairs]}
    return kept


def _path(parts: tuple[Any, ...]) -> str:
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
