"""Builds forms for users from a type or a flat JSON Schema (client/elicitation, form mode).

A form has only a few keywords of JSON Schema, and some depend on the client's protocol version. So each property has
two schemas: one for the request, and a stricter one for the response. From a valid response, the form builds an
instance of the requested type.

    >>> form = create_form({"type": "object", "properties": {"code": {"type": "string", "pattern": "^A"}}})
    >>> form.schema["properties"], form.list_problems({"code": "B"})
    ({'code': {'type': 'string'}}, ['$.code: "B" does not match "^A"'])

References are followed, and a property that may be null becomes an optional one. Other keywords with an influence on a
form are rejected. Only forms from types import pydantic.
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
"""The first version with defaults of every type, titles of choices and multiple choice.

It is also the only version with patterns.
"""
SINGLE_PROPERTY: Final = "value"
"""The property of a form that asks for a single value."""
_MAX_CACHED = 256
"""The maximum number of forms of types that are kept."""
_MAX_STEPS = 32
"""The maximum number of references and nulls of one property, so that a reference to itself ends."""
_FORMATS = frozenset({"date", "date-time", "email", "uri"})
_REQUEST_KEYWORDS = {
    "string": ("minLength", "maxLength", "format"), "number": ("minimum", "maximum"), "integer": ("minimum", "maximum"),
    "boolean": (), "array": ("minItems", "maxItems"),
}  # fmt: skip
_RESPONSE_KEYWORDS = {
    "string": ("pattern",), "number": ("exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "integer": ("multipleOf",), "boolean": ("const", "enum"), "array": ("uniqueItems",),
}  # fmt: skip
"""Further keywords, which only the schema for the response has."""
_LABELS = ("title", "description")
_LIMITS = (("minLength", "maxLength"), ("minimum", "maximum"), ("minItems", "maxItems"))
_BRANCHES = ("anyOf", "oneOf", "allOf", "not", "if")
_NULLS = {"anyOf": {"type": "null"}, "oneOf": {"type": "null"}, "type": "null", "enum": None}
"""The item that allows null in the list of each keyword."""
_NUMBERS = ([{"type": "integer"}, {"type": "number"}], [{"type": "number"}, {"type": "integer"}])
"""Alternatives with the same meaning as "number", such as those of `int | float`."""
_FLAT = "A form is flat: text, numbers, booleans and choices"


@dataclass(frozen=True, slots=True, kw_only=True)
class _InstanceReader:
    """Builds an instance of the requested type from a response.

    Attributes:
        adapter: The pydantic adapter of the type.
        is_single: Whether the form asks for a single value.
        nullable_names: Properties that the user may leave out, and that become None then.
    """

    adapter: TypeAdapter[Any]
    is_single: bool
    nullable_names: tuple[str, ...]

    def read_instance(self, content: Mapping[str, Any]) -> Any:
        """Return the instance. Raises pydantic's ValidationError."""
        from pydantic_core import to_json

        # Strict models build dates and enums only from JSON text.
        if not self.is_single:
            return self.adapter.validate_json(to_json({**dict.fromkeys(self.nullable_names), **content}))
        if SINGLE_PROPERTY in content:
            return self.adapter.validate_json(to_json(content[SINGLE_PROPERTY]))
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
        """A schema with all keywords of the request and of the response. `create_form` builds the same form from it."""
        response_schemas = self._validator.schema["properties"]
        properties = {}
        for name, request_schema in self.schema["properties"].items():
            properties[name] = {**request_schema, **response_schemas[name]}
        return {**self.schema, "properties": properties}

    def to_version(self, version: str) -> dict[str, Any]:
        """Return the `requestedSchema` for a protocol version. An empty version is the newest one.

        Before 2025-11-25 the titles of choices are in `enumNames`, and only booleans have defaults. Those versions do
        not have multiple choice, so it raises ValueError.
        """
        if not version or version > RICH_FORMS_VERSION:
            return self.schema
        properties = dict(self.schema["properties"])
        if version == RICH_FORMS_VERSION:
            for name, pattern in self._patterns.items():
                properties[name] = {**properties[name], "pattern": pattern}
        else:
            for name, schema in properties.items():
                properties[name] = _convert_to_old_version(name, schema)
        return {**self.schema, "properties": properties}

    def select_content(self, content: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return a response without unknown properties, and without the nulls that clients send for empty fields."""
        required = self.schema.get("required", ())
        selection = {}
        for name, value in (content or {}).items():
            if name in self.schema["properties"] and (value is not None or name in required):
                selection[name] = value
        return selection

    def list_problems(self, content: Any) -> list[str]:
        """Return a line for each problem of a response, such as `$.age: required field missing`."""
        if content is not None and not isinstance(content, Mapping):
            return [f"$: expected type object, got {get_type(content)}"]
        content = self.select_content(content)
        if not self._validator.is_valid(content):
            return self._validator.describe_problems(content)
        if self._reader is None:
            return []
        from pydantic import ValidationError
        from pydantic_core import PydanticSerializationError

        # The type may reject more than its schema, for example by validators of its author.
        try:
            self._reader.read_instance(content)
        except ValidationError as error:
            start = (SINGLE_PROPERTY,) if self._reader.is_single else ()
            problems = error.errors(include_url=False)
            return [f"{format_path(start + problem['loc'])}: {problem['msg']}" for problem in problems]
        except PydanticSerializationError as error:
            # JSON can express a lone surrogate, which pydantic cannot serialize.
            return [f"$: {error}"]
        return []

    def read_answer(self, content: Mapping[str, Any] | None) -> Any:
        """Return an instance of the requested type, or the content of a form without a type.

        Raises ValueError for content with problems (see `list_problems`).
        """
        content = self.select_content(content)
        if self._reader is None:
            return content
        return self._reader.read_instance(content)


def create_form(source: Any) -> FormSchema:
    """Build the form for a type, for a JSON Schema (a mapping), or for a mere confirmation (None).

    Raises ValueError if the source cannot be a form. The text names the property, and gives advice.
    """
    if source is None:
        source = {"type": "object", "properties": {}}
    if isinstance(source, Mapping):
        return _build_form(source)
    try:
        hash(source)
    except TypeError:
        # The metadata of an Annotated may be unhashable. Such a form is not cached.
        return _build_type_form(source)
    return _get_type_form(source, repr(source))


@functools.lru_cache(maxsize=_MAX_CACHED)
def _get_type_form(source: Any, _text: str) -> FormSchema:
    """Return the form of a type, from the cache if possible.

    `_text` is only a part of the key: two Literals with another order are equal, but their forms are not.
    """
    return _build_type_form(source)


def _build_type_form(source: Any) -> FormSchema:
    """Build the form of a type from the JSON Schema that pydantic generates for it."""
    from pydantic import TypeAdapter

    from mcp_bridge._json_schema.generation import UNSUPPORTED_TYPE, FormGenerator

    if isinstance(source, str):
        raise ValueError(f"{source!r} cannot be asked for in a form: it is text. Give the type itself.")  # noqa: TRY004
    name = source.__qualname__ if isinstance(source, type) else repr(source)
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(source)
        schema = adapter.json_schema(mode="validation", schema_generator=FormGenerator)
    except UNSUPPORTED_TYPE as error:
        reason = str(error).splitlines()[0].split(". ")[0].rstrip(".")
        raise ValueError(f"{name} cannot be asked for in a form: {reason}. Ask for another type.") from error
    definitions = schema.get("$defs", {})
    # The schema of a recursive type is only a reference to its definition.
    definition_name = schema.get("$ref", "").rsplit("/", 1)[-1]
    schema = {**definitions.get(definition_name, {}), **schema}
    if "properties" not in schema and schema.get("type") != "object":
        required = [] if "default" in schema else [SINGLE_PROPERTY]
        frame = {"type": "object", "required": required, "$defs": definitions}
        return _build_form({**frame, "properties": {SINGLE_PROPERTY: schema}}, adapter, is_single=True)
    if "properties" not in schema:
        raise ValueError(f"{name} cannot be asked for in a form: its names are not known. Name its fields.")
    properties = dict(schema["properties"])
    if isinstance(source, type):
        for field_name, description in parse_docstring(source)[1].items():
            if field_name in properties:
                properties[field_name] = {"description": description, **properties[field_name]}
    return _build_form({**schema, "properties": properties}, adapter)


def _build_form(
    schema: Mapping[str, Any], adapter: TypeAdapter[Any] | None = None, *, is_single: bool = False
) -> FormSchema:
    """Build the form of a schema. With an adapter, responses become instances of its type."""
    schema = _check_form_schema(schema)
    definitions = {**schema.get("definitions", {}), **schema.get("$defs", {})}
    request_schemas: dict[str, Any] = {}
    response_schemas: dict[str, Any] = {}
    nullable_names = []
    for name, property_schema in schema["properties"].items():
        resolved_schema, is_nullable = _resolve_property(name, property_schema, definitions)
        request_schemas[name], response_schemas[name] = _read_field(name, resolved_schema, definitions)
        if is_nullable:
            nullable_names.append(name)
    listed_names = schema.get("required", [])
    for name in listed_names:
        if name not in request_schemas:
            raise ValueError(f"'{name}' is required in this form, but is not among its properties. Add or remove it.")
    # Forms have no null, so a property that may be null may be left out.
    required = [name for name in listed_names if name not in nullable_names]
    reader = None
    labels: dict[str, Any] = {}
    if adapter is None:
        labels = _select(schema, _LABELS)
    else:
        # The title and the description of a type are for programmers and not for users, so the form has no labels.
        required_by_type = tuple(name for name in listed_names if name in nullable_names)
        reader = _InstanceReader(adapter=adapter, is_single=is_single, nullable_names=required_by_type)
    patterns = {name: schema["pattern"] for name, schema in response_schemas.items() if "pattern" in schema}
    validator = Validator(_build_object(response_schemas, required), check_formats=True)
    return FormSchema({**labels, **_build_object(request_schemas, required)}, patterns, validator, reader)


def _build_object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    return schema


def _check_form_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a schema as JSON. Raises ValueError if it is not a valid schema of an object."""
    try:
        copy: dict[str, Any] = load_json(dump_json(dict(schema)))
    except (TypeError, ValueError) as error:
        raise ValueError(f"This schema cannot be a form: it is not JSON ({error}). Fix the value.") from error
    if copy.get("type") != "object" or not isinstance(copy.get("properties"), dict):
        raise ValueError(
            'This schema cannot be a form: a form is {"type": "object", "properties": {...}}. '
            'For a single value give its type, or one property such as {"value": {"type": "string"}}.'
        )
    problems = check_schema(copy)
    if problems:
        raise ValueError(f"This schema cannot be a form: {'; '.join(problems)}.")
    return copy


def _convert_to_old_version(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a property for versions before RICH_FORMS_VERSION."""
    if schema["type"] == "array":
        raise ValueError(
            f"'{name}' cannot be asked of this client: before {RICH_FORMS_VERSION} forms have no lists of choices."
        )
    copy = dict(schema)
    if copy["type"] != "boolean":
        copy.pop("default", None)
    if "oneOf" in copy:
        choices = copy.pop("oneOf")
        copy["enum"] = [choice["const"] for choice in choices]
        copy["enumNames"] = [choice["title"] for choice in choices]
    return copy


def _reject(name: str, problem: str, advice: str) -> NoReturn:
    raise ValueError(f"'{name}' cannot be in a form: {problem}. {advice}.")


def _resolve_property(name: str, schema: Any, definitions: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return a property without references, null and redundant alternatives, and whether null was allowed."""
    if not isinstance(schema, Mapping):
        _reject(name, "it may be anything", _FLAT)
    copy = dict(schema)
    is_nullable = False
    for _ in range(_MAX_STEPS):
        if "$ref" in copy:
            reference = copy.pop("$ref")
            target = definitions.get(reference.rsplit("/", 1)[-1]) if isinstance(reference, str) else None
            if not isinstance(target, Mapping):
                break
            copy = {**target, **copy}
            continue
        without_null = _remove_null(copy)
        if without_null is not None:
            copy, is_nullable = without_null, True
        elif copy.get("anyOf") in _NUMBERS:
            del copy["anyOf"]
            copy["type"] = "number"
        else:
            return copy, is_nullable
    _reject(name, "it has a reference that leads nowhere", "Write the schema out")


def _remove_null(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a property without its item for null, or None if it has none."""
    for keyword, null in _NULLS.items():
        items = schema.get(keyword)
        if not isinstance(items, list) or null not in items:
            continue
        items = [item for item in items if item != null]
        if len(items) != 1 or keyword == "enum":
            return {**schema, keyword: items}
        neighbours = {key: value for key, value in schema.items() if key != keyword}
        if keyword == "type":
            return {**neighbours, "type": items[0]}
        return {**items[0], **neighbours}
    return None


def _read_field(
    name: str, schema: dict[str, Any], definitions: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the schemas of a property for the request (MCP's `PrimitiveSchemaDefinition`) and for the response.

    Raises ValueError if no form can have the property, or if it asks for a secret.
    """
    json_type = str(schema.get("type"))
    choices = _read_choices(name, schema) if json_type in ("string", "None") else None
    if choices is None and (json_type not in _REQUEST_KEYWORDS or not schema.keys().isdisjoint(_BRANCHES)):
        branch = next((keyword for keyword in _BRANCHES if keyword in schema), "no type")
        _reject(name, f"its type is {schema['type']!r}" if "type" in schema else f"it has {branch}", _FLAT)
    is_typed_in = choices is None and json_type in ("string", "number", "integer")
    if _is_secret(name, schema, is_typed_in=is_typed_in):
        _reject(name, "it looks like a secret, which forms must not ask for", "Ask with url= instead")
    if json_type == "array":
        request_schema, response_schema = _read_multiple_choice(name, schema, definitions)
    elif choices is not None:
        request_schema = choices
        response_schema = {"type": "string", "enum": _list_values(choices)}
    else:
        request_schema, response_schema = _read_value(name, schema)
    for low, high in _LIMITS:
        if low in request_schema and high in request_schema and request_schema[low] > request_schema[high]:
            _reject(name, f"{low} is more than {high}", "Nothing would fit")
    labels = {key: schema[key] for key in _LABELS if isinstance(schema.get(key), str)}
    if schema.get("default") is not None:
        labels["default"] = schema["default"]
        for line in Validator(response_schema).list_problems(schema["default"]):
            _reject(name, f"its default does not fit ({line})", "Give another, or none")
    return {**request_schema, **labels}, response_schema


def _is_secret(name: str, schema: Mapping[str, Any], *, is_typed_in: bool) -> bool:
    if schema.get("format") == "password" or schema.get("writeOnly") is True:
        return True
    title = schema.get("title")
    return is_typed_in and (is_secret_name(name) or (isinstance(title, str) and is_secret_name(title)))


def _read_value(name: str, schema: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the schemas of text, a number or a boolean."""
    json_type = schema["type"]
    if json_type in ("number", "integer") and ("enum" in schema or "const" in schema):
        _reject(name, "its choices are numbers", "Choices are text: name them, or ask for a number with bounds")
    keywords = dict(schema)
    if json_type == "integer":
        # Forms have no exclusive bounds: more than 0 is at least 1.
        if "exclusiveMinimum" in schema:
            low = math.floor(schema["exclusiveMinimum"]) + 1
            keywords["minimum"] = max(low, schema.get("minimum", -math.inf))
        if "exclusiveMaximum" in schema:
            high = math.ceil(schema["exclusiveMaximum"]) - 1
            keywords["maximum"] = min(high, schema.get("maximum", math.inf))
    request_schema = {"type": json_type, **_select(keywords, _REQUEST_KEYWORDS[json_type])}
    if request_schema.get("format") not in _FORMATS:
        request_schema.pop("format", None)
    return request_schema, {**request_schema, **_select(keywords, _RESPONSE_KEYWORDS[json_type])}


def _select(schema: Mapping[str, Any], keywords: Sequence[str]) -> dict[str, Any]:
    return {key: schema[key] for key in keywords if key in schema}


def _read_multiple_choice(
    name: str, schema: Mapping[str, Any], definitions: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the schemas of a list of choices. MCP specifies `anyOf` for its items, and `oneOf` for a single choice."""
    items, _ = _resolve_property(name, schema.get("items", {}), definitions)
    choices = _read_choices(name, items)
    if choices is None:
        _reject(name, "it is a list without choices", 'Give them: list[Literal["a", "b"]], or items with an enum')
    values, titles = _list_values(choices), _list_titles(choices)
    limits = {"type": "array", **_select(schema, _REQUEST_KEYWORDS["array"])}
    if limits.get("minItems", 0) > len(values):
        _reject(name, f"minItems is more than its {len(values)} choices", "Ask for fewer")
    item_schema: dict[str, Any] = {"type": "string", "enum": values}
    response_schema = {**limits, **_select(schema, _RESPONSE_KEYWORDS["array"]), "items": item_schema}
    if titles:
        pairs = zip(values, titles, strict=True)
        item_schema = {"anyOf": [{"const": value, "title": title} for value, title in pairs]}
    return {**limits, "items": item_schema}, response_schema


def _read_choices(name: str, schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the schema of a single choice, or None if the schema has no choices.

    It has `oneOf` with titles, or `enum`, possibly with the titles in `enumNames`, a keyword outside of JSON Schema.
    """
    choices: dict[str, Any] = {"type": "string"}
    pairs = schema.get("oneOf", schema.get("anyOf"))
    if isinstance(pairs, list) and all(isinstance(pair, Mapping) and "const" in pair for pair in pairs):
        choices["oneOf"] = [{"const": pair["const"], "title": pair.get("title", pair["const"])} for pair in pairs]
    elif "const" in schema or isinstance(schema.get("enum"), list):
        choices["enum"] = schema.get("enum", [schema.get("const")])
        if isinstance(schema.get("enumNames"), list):
            choices["enumNames"] = schema["enumNames"]
    else:
        return None
    values, titles = _list_values(choices), _list_titles(choices)
    if not values or not all(isinstance(text, str) for text in values + (titles or [])):
        _reject(name, "its choices are not all text", "Choices and their titles are text, and there is at least one")
    if len(set(values)) < len(values) or (titles is not None and len(titles) != len(values)):
        _reject(name, "its choices are ambiguous", "Give each choice once, and as many titles as choices")
    return choices


def _list_values(choices: Mapping[str, Any]) -> list[Any]:
    if "enum" in choices:
        values: list[Any] = choices["enum"]
        return values
    return [pair["const"] for pair in choices["oneOf"]]


def _list_titles(choices: Mapping[str, Any]) -> list[Any] | None:
    if "oneOf" in choices:
        return [pair["title"] for pair in choices["oneOf"]]
    return choices.get("enumNames")
