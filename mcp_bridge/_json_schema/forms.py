"""Forms: what a user can be asked to fill in, from a type or a flat JSON Schema (client/elicitation, form mode).

A form is written in the keywords of the client's protocol version, checks the response, and builds an instance of the
requested type from it. References are followed, and null becomes "may be left out". Keywords that forms do not have are
rejected, or checked without being sent. pydantic is imported when the first type is requested.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NoReturn

from mcp_bridge._json_schema.callables import parse_docstring
from mcp_bridge._json_schema.messages import format_path
from mcp_bridge._json_schema.schema_checks import check_schema
from mcp_bridge._json_schema.secret_names import is_secret_name
from mcp_bridge._json_schema.type_sets import get_type
from mcp_bridge._json_schema.validator import Validator
from mcp_bridge._runtime.exact_json import dump_json, load_json

if TYPE_CHECKING:
    from pydantic import TypeAdapter

RICH_FORMS_VERSION: Final = "2025-11-25"
"""The first version with defaults of every type, titles of choices and multiple choice; the only one with patterns."""
SINGLE_PROPERTY: Final = "value"
"""The property of a form that asks for a single value."""
_MAX_CACHED = 256  # forms of types
_FORMATS = frozenset({"date", "date-time", "email", "uri"})
_SENT = {
    "string": ("minLength", "maxLength", "format"), "number": ("minimum", "maximum"), "integer": ("minimum", "maximum"),
    "boolean": (), "array": ("minItems", "maxItems"),
}  # fmt: skip
_CHECKED = {
    "string": ("pattern",), "number": ("exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "integer": ("multipleOf",), "boolean": ("const", "enum"), "array": ("uniqueItems",),
}  # fmt: skip
_LABELS = ("title", "description")
_LIMITS = (("minLength", "maxLength"), ("minimum", "maximum"), ("minItems", "maxItems"))
_BRANCHES = ("anyOf", "oneOf", "allOf", "not", "if")
_NULL = {"type": "null"}
_NUMBERS = ([{"type": "integer"}, {"type": "number"}], [{"type": "number"}, {"type": "integer"}])
"""Alternatives that are the same as "number", such as those of `int | float`."""
_MAX_STEPS = 32  # references and nulls of one property; stops at a reference to itself
_FLAT = "A form is flat: text, numbers, booleans and choices"


@dataclass(frozen=True, slots=True, kw_only=True)
class _InstanceReader:
    """Builds an instance from a response. Missing `blanks` become None: the user may leave them out."""

    adapter: TypeAdapter[Any]
    single: bool
    blanks: tuple[str, ...]

    def read_instance(self, given: Mapping[str, Any]) -> Any:
        from pydantic_core import to_json

        # JSON rather than Python, so that text becomes dates and enums in strict models too
        if not self.single:
            return self.adapter.validate_json(to_json({**dict.fromkeys(self.blanks), **given}))
        if SINGLE_PROPERTY in given:
            return self.adapter.validate_json(to_json(given[SINGLE_PROPERTY]))
        default = self.adapter.get_default_value()
        return default.value if default is not None else None


@dataclass(frozen=True, slots=True, eq=False)
class FormSchema:
    """A form. `schema` is the `requestedSchema` of 2026-07-28. Calls share it, so it must not be changed."""

    schema: dict[str, Any]
    _patterns: Mapping[str, str] = field(repr=False)
    _validator: Validator = field(repr=False)
    _reader: _InstanceReader | None = field(repr=False)

    @property
    def full_schema(self) -> dict[str, Any]:
        """Everything that a response is checked against, as a schema from which `create_form` builds the same form."""
        checked = self._validator.schema["properties"]
        properties = {name: {**part, **checked[name]} for name, part in self.schema["properties"].items()}
        return {**self.schema, "properties": properties}

    def to_version(self, version: str) -> dict[str, Any]:
        """The `requestedSchema` for a protocol version; "" is the newest.

        Before 2025-11-25 the titles of choices are in `enumNames`, and only booleans have defaults. Raises ValueError
        for multiple choice, which those versions do not have.
        """
        if not version or version > RICH_FORMS_VERSION:
            return self.schema
        properties = self.schema["properties"]
        if version < RICH_FORMS_VERSION:
            changed = {name: _convert_to_old_version(name, part) for name, part in properties.items()}
        else:
            changed = {name: {**properties[name], "pattern": pattern} for name, pattern in self._patterns.items()}
        return {**self.schema, "properties": {**properties, **changed}}

    def select_content(self, content: Mapping[str, Any] | None) -> dict[str, Any]:
        """The response without unknown properties, and without the nulls that clients send for empty fields."""
        required, properties = self.schema.get("required", ()), self.schema["properties"]
        items = (content or {}).items()
        return {key: value for key, value in items if key in properties and (value is not None or key in required)}

    def list_problems(self, content: Any) -> list[str]:
        """A line for each problem of a response, such as `$.age: required field missing`; empty if it fits."""
        if content is not None and not isinstance(content, Mapping):
            return [f"$: expected type object, got {get_type(content)}"]
        given = self.select_content(content)
        if not self._validator.is_valid(given):
            return self._validator.describe_problems(given)
        return self._check_type(given)

    def _check_type(self, given: Mapping[str, Any]) -> list[str]:
        """What the type checks beyond its schema, such as an author's own validators."""
        if self._reader is None:
            return []
        from pydantic import ValidationError
        from pydantic_core import PydanticSerializationError

        try:
            self._reader.read_instance(given)
        except ValidationError as error:
            start = (SINGLE_PROPERTY,) if self._reader.single else ()
            problems = error.errors(include_url=False)
            return [f"{format_path((*start, *item['loc']))}: {item['msg']}" for item in problems]
        except PydanticSerializationError as error:  # a lone surrogate, which JSON can express and text cannot
            return [f"$: {error}"]
        return []

    def read_answer(self, content: Mapping[str, Any] | None) -> Any:
        """An instance of the requested type, or the bare value of a single one; without a type, the content.

        Raises ValueError for content in which `list_problems` finds any.
        """
        given = self.select_content(content)
        return given if self._reader is None else self._reader.read_instance(given)


def create_form(asked: Any) -> FormSchema:
    """The form that asks for a type or a JSON Schema (a mapping), or for a mere confirmation (None).

    Raises ValueError naming a property that no form can have, and what to do.
    """
    if asked is None or isinstance(asked, Mapping):
        return _build_form({"type": "object", "properties": {}} if asked is None else asked)
    try:
        hash(asked)
    except TypeError:  # an Annotated with metadata that is not hashable
        return _build_type_form(asked)
    return _get_type_form(asked, repr(asked))


@functools.lru_cache(maxsize=_MAX_CACHED)
def _get_type_form(asked: Any, _text: str) -> FormSchema:
    """The text is a part of the key because Literals in another order are equal, but their forms differ."""
    return _build_type_form(asked)


def _build_type_form(asked: Any) -> FormSchema:
    from pydantic import TypeAdapter

    from mcp_bridge._json_schema.generation import UNSUPPORTED_TYPE, FormGenerator

    if isinstance(asked, str):
        raise ValueError(f"{asked!r} cannot be asked for in a form: it is text. Give the type itself.")  # noqa: TRY004
    name = asked.__qualname__ if isinstance(asked, type) else repr(asked)
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(asked)
        schema = adapter.json_schema(mode="validation", schema_generator=FormGenerator)
    except UNSUPPORTED_TYPE as error:
        reason = str(error).splitlines()[0].split(". ")[0].rstrip(".")
        raise ValueError(f"{name} cannot be asked for in a form: {reason}. Ask for another type.") from error
    schema = {**schema.get("$defs", {}).get(schema.get("$ref", "").rsplit("/", 1)[-1], {}), **schema}
    if "properties" not in schema and schema.get("type") != "object":
        required = [] if "default" in schema else [SINGLE_PROPERTY]
        frame = {"type": "object", "required": required, "$defs": schema.get("$defs", {})}
        return _build_form({**frame, "properties": {SINGLE_PROPERTY: schema}}, adapter, single=True)
    if "properties" not in schema:
        raise ValueError(f"{name} cannot be asked for in a form: its names are not known. Name its fields.")
    notes = parse_docstring(asked)[1] if isinstance(asked, type) else {}
    parts = schema["properties"]
    described = {name: {"description": notes[name], **part} for name, part in parts.items() if name in notes}
    return _build_form({**schema, "properties": {**parts, **described}}, adapter)


def _build_form(
    schema: Mapping[str, Any], adapter: TypeAdapter[Any] | None = None, *, single: bool = False
) -> FormSchema:
    whole = _check_form_schema(schema)
    properties, listed = whole["properties"], whole.get("required", [])
    definitions = {**whole.get("definitions", {}), **whole.get("$defs", {})}
    fields = {name: _read_field(name, part, definitions) for name, part in properties.items()}
    for name in listed:
        if name not in fields:
            raise ValueError(f"'{name}' is required in this form, but is not among its properties. Add or remove it.")
    # what may be null may be left out, because forms have no null
    required = [name for name in listed if not fields[name].nullable]
    blanks = tuple(name for name in listed if fields[name].nullable)
    checked = _build_object({name: item.checked for name, item in fields.items()}, required)
    labels = _select(whole, _LABELS) if adapter is None else {}  # those of a type are for programmers
    return FormSchema(
        {**labels, **_build_object({name: item.sent for name, item in fields.items()}, required)},
        {name: item.checked["pattern"] for name, item in fields.items() if "pattern" in item.checked},
        Validator(checked, check_formats=True),
        _InstanceReader(adapter=adapter, single=single, blanks=blanks) if adapter is not None else None,
    )


def _build_object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _check_form_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A copy that is JSON, and a valid JSON Schema of an object."""
    try:
        copy: dict[str, Any] = load_json(dump_json(dict(schema)))
    except (TypeError, ValueError) as error:
        raise ValueError(f"This schema cannot be a form: it is not JSON ({error}). Fix the value.") from error
    if copy.get("type") != "object" or not isinstance(copy.get("properties"), dict):
        raise ValueError(
            'This schema cannot be a form: a form is {"type": "object", "properties": {...}}. '
            'For a single value give its type, or one property such as {"value": {"type": "string"}}.'
        )
    if problems := check_schema(copy):
        raise ValueError(f"This schema cannot be a form: {'; '.join(problems)}.")
    return copy


def _convert_to_old_version(name: str, part: Mapping[str, Any]) -> dict[str, Any]:
    """A property for the versions before RICH_FORMS_VERSION."""
    if part["type"] == "array":
        raise ValueError(
            f"'{name}' cannot be asked of this client: before {RICH_FORMS_VERSION} forms have no lists of choices."
        )
    older = {key: value for key, value in part.items() if key != "default" or part["type"] == "boolean"}
    if (pairs := older.pop("oneOf", None)) is not None:
        older |= {"enum": [item["const"] for item in pairs], "enumNames": [item["title"] for item in pairs]}
    return older


@dataclass(frozen=True, slots=True, kw_only=True)
class _FormField:  # `PrimitiveSchemaDefinition` of the specification
    sent: dict[str, Any]
    checked: dict[str, Any]  # when the response arrives
    nullable: bool  # may be left out


def _read_field(name: str, schema: Any, definitions: Mapping[str, Any]) -> _FormField:
    """Raises ValueError naming the property if no form can have it, or if it asks for a secret."""
    part, nullable = _resolve_property(name, schema, definitions)
    kind = str(part.get("type"))
    choices = _read_choices(name, part) if kind in ("string", "None") else None
    if choices is None and (kind not in _SENT or not part.keys().isdisjoint(_BRANCHES)):
        _reject(name, _describe_kind(part), _FLAT)
    if _is_secret(name, part, choices):
        _reject(name, "it looks like a secret, which forms must not ask for", "Ask with url= instead")
    if kind == "array":
        sent, checked = _read_multiple_choice(name, part, definitions)
    elif choices is not None:
        sent, checked = choices, {"type": "string", "enum": _list_values(choices)}
    else:
        sent, checked = _read_value(name, part)
    return _FormField(sent=_add_labels(name, part, sent, checked), checked=checked, nullable=nullable)


def _reject(name: str, problem: str, advice: str) -> NoReturn:
    raise ValueError(f"'{name}' cannot be in a form: {problem}. {advice}.")


def _describe_kind(part: Mapping[str, Any]) -> str:
    if "type" in part:
        return f"its type is {part['type']!r}"
    return f"it has {next((keyword for keyword in _BRANCHES if keyword in part), 'no type')}"


def _resolve_property(name: str, schema: Any, definitions: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """The property without references, null and needless alternatives, and whether null was allowed."""
    if not isinstance(schema, Mapping):
        _reject(name, "it may be anything", _FLAT)
    part, nullable = dict(schema), False
    for _ in range(_MAX_STEPS):
        if "$ref" in part:
            reference = part.pop("$ref")
            target = definitions.get(reference.rsplit("/", 1)[-1]) if isinstance(reference, str) else None
            if not isinstance(target, Mapping):
                break
            part = {**target, **part}
        elif (rest := _remove_null(part)) is not None:
            part, nullable = rest, True
        elif part.get("anyOf") in _NUMBERS:
            del part["anyOf"]
            part["type"] = "number"
        else:
            return part, nullable
    _reject(name, "it has a reference that leads nowhere", "Write the schema out")


def _remove_null(part: Mapping[str, Any]) -> dict[str, Any] | None:
    """The property without null, or None if null is not allowed."""
    for keyword in ("anyOf", "oneOf", "type", "enum"):
        allowed, null = part.get(keyword), {"type": "null", "enum": None}.get(keyword, _NULL)
        if not isinstance(allowed, list) or null not in allowed:
            continue
        rest = {key: value for key, value in part.items() if key != keyword}
        left = [item for item in allowed if item != null]
        if len(left) == 1 and keyword != "enum":
            return {**rest, "type": left[0]} if keyword == "type" else {**left[0], **rest}
        return {**rest, keyword: left}
    return None


def _read_value(name: str, part: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is sent and what is checked of text, a number or a boolean."""
    kind = part["type"]
    if kind in ("number", "integer") and ("enum" in part or "const" in part):
        _reject(name, "its choices are numbers", "Choices are text: name them, or ask for a number with bounds")
    part = _make_bounds_inclusive(part) if kind == "integer" else part
    sent = {"type": kind, **_select(part, _SENT[kind])}
    if sent.get("format") not in _FORMATS:
        sent.pop("format", None)
    return sent, {**sent, **_select(part, _CHECKED[kind])}


def _make_bounds_inclusive(part: Mapping[str, Any]) -> dict[str, Any]:
    """An integer with inclusive bounds, because forms have no exclusive ones: more than 0 is at least 1."""
    bounded = dict(part)
    if "exclusiveMinimum" in part:
        bounded["minimum"] = max(math.floor(part["exclusiveMinimum"]) + 1, part.get("minimum", -math.inf))
    if "exclusiveMaximum" in part:
        bounded["maximum"] = min(math.ceil(part["exclusiveMaximum"]) - 1, part.get("maximum", math.inf))
    return bounded


def _select(part: Mapping[str, Any], keywords: Sequence[str]) -> dict[str, Any]:
    return {key: part[key] for key in keywords if key in part}


def _read_multiple_choice(
    name: str, part: Mapping[str, Any], definitions: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is sent and what is checked. The specification has `anyOf` here where a single choice has `oneOf`."""
    items, _ = _resolve_property(name, part.get("items", {}), definitions)
    choices = _read_choices(name, items)
    if choices is None:
        _reject(name, "it is a list without choices", 'Give them: list[Literal["a", "b"]], or items with an enum')
    values, titles = _list_values(choices), _list_titles(choices)
    limits = {"type": "array", **_select(part, _SENT["array"])}
    if limits.get("minItems", 0) > len(values):
        _reject(name, f"minItems is more than its {len(values)} choices", "Ask for fewer")
    plain = {"type": "string", "enum": values}
    pairs = [{"const": value, "title": title} for value, title in zip(values, titles or (), strict=False)]
    checked = {**limits, **_select(part, _CHECKED["array"]), "items": plain}
    return {**limits, "items": {"anyOf": pairs} if pairs else plain}, checked


def _read_choices(name: str, part: Mapping[str, Any]) -> dict[str, Any] | None:
    """A single choice: `enum`, with `enumNames` if the author gave them, or `oneOf` with titles."""
    pairs = part.get("oneOf", part.get("anyOf"))
    if isinstance(pairs, list) and all(isinstance(item, Mapping) and "const" in item for item in pairs):
        choices: dict[str, Any] = {
            "oneOf": [{"const": item["const"], "title": item.get("title", item["const"])} for item in pairs]
        }
    elif "const" in part or isinstance(part.get("enum"), list):
        choices = {"enum": part.get("enum", [part.get("const")])}
        if isinstance(part.get("enumNames"), list):
            choices["enumNames"] = part["enumNames"]
    else:
        return None
    values, titles = _list_values(choices), _list_titles(choices)
    if not values or not all(isinstance(item, str) for item in (*values, *(titles or ()))):
        _reject(name, "its choices are not all text", "Choices and their titles are text, and there is at least one")
    if len(set(values)) < len(values) or (titles is not None and len(titles) != len(values)):
        _reject(name, "its choices are ambiguous", "Give each choice once, and as many titles as choices")
    return {"type": "string", **choices}


def _list_values(choices: Mapping[str, Any]) -> list[Any]:
    return choices["enum"] if "enum" in choices else [item["const"] for item in choices["oneOf"]]


def _list_titles(choices: Mapping[str, Any]) -> list[Any] | None:
    return [item["title"] for item in choices["oneOf"]] if "oneOf" in choices else choices.get("enumNames")


def _add_labels(name: str, part: Mapping[str, Any], sent: dict[str, Any], checked: Mapping[str, Any]) -> dict[str, Any]:
    """Adds title, description and default, after checking that limits and default are consistent."""
    for low, high in _LIMITS:
        if low in sent and high in sent and sent[low] > sent[high]:
            _reject(name, f"{low} is more than {high}", "Nothing would fit")
    labels = {key: part[key] for key in _LABELS if isinstance(part.get(key), str)}
    if part.get("default") is None:
        return {**sent, **labels}
    for line in Validator(checked).list_problems(part["default"]):
        _reject(name, f"its default does not fit ({line})", "Give another, or none")
    return {**sent, **labels, "default": part["default"]}


def _is_secret(name: str, part: Mapping[str, Any], choices: Any) -> bool:
    if part.get("format") == "password" or part.get("writeOnly") is True:
        return True
    is_typed_in = choices is None and part.get("type") in ("string", "number", "integer")
    return is_typed_in and any(is_secret_name(text) for text in (name, part.get("title")) if isinstance(text, str))
