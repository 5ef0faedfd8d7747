"""Reads schemas of requests as their authors meant them, so that the style of a document rejects no request.

Documents declare text and list numbers, write patterns as JavaScript does, and close schemas that they extend. If a
schema has several sensible readings, an argument may follow any of them, and the API decides:

    {"type": "string", "enum": [1, 2]}  ->  {"type": ["string", "integer"], "enum": [1, 2, "1", "2"]}
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import orjson

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._json_schema.type_sets import get_type, has_type
from mcp_bridge._json_schema.walking import COMBINATORS, get_list, get_mapping, has_any_keyword, list_values
from mcp_bridge._sources.openapi.document import ApiDocument, Json, as_mapping
from mcp_bridge._sources.openapi.keywords import MEMBERS, list_known_types

Schema = dict[str, Any]

MAX_SUBTYPES = 100
"""The maximum number of subtypes that a schema shows."""
_SCHEMAS = "#/components/schemas/"
_PAIRS = (("minimum", "maximum"), ("minLength", "maxLength"), ("minItems", "maxItems"))
_LIMITS = frozenset(
    {
        "pattern", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    }
)  # fmt: skip
_ANNOTATIONS = frozenset({"title", "description", "default", "deprecated", "readOnly", "writeOnly"})
_NOT_EXACT = frozenset(
    {"$ref", "allOf", "anyOf", "oneOf", "additionalProperties", "pattern", "patternProperties", "nullable", "readOnly"}
)
_BRANCHES = frozenset({"$ref", "allOf", "anyOf", "oneOf", "not", "if", "const"})
_LITERAL = re.compile(r"/(.+)/([a-z]*)", re.DOTALL)
"""A pattern in the syntax of JavaScript code."""


def is_exact(schema: Any) -> bool:
    """Return whether a schema converts to the same one. Under `not` and `if`, one that accepts more rejects more."""
    return not has_any_keyword(schema, _NOT_EXACT)


def declares_properties(schema: Any) -> bool:
    """Return whether a schema may declare properties. Some only list required ones."""
    return isinstance(schema, Mapping) and not {"$ref", *MEMBERS}.isdisjoint(schema)


def is_open(schema: Json) -> bool:
    """Return whether a schema accepts all undeclared properties."""
    return schema.get("additionalProperties", True) in (True, {}) and not schema.get("patternProperties")


def has_other_properties(schema: Json) -> bool:
    """Return whether a schema may have other properties than those in the keyword `properties`."""
    properties = get_mapping(schema, "properties")
    if any(as_mapping(value).get("readOnly") is True for value in properties.values()):
        return True
    required = set(map(str, get_list(schema, "required")))
    if schema.get("additionalProperties") is False and not properties.keys() >= required:
        return "patternProperties" not in schema
    if "$ref" in schema:
        return True
    return any(any(map(declares_properties, get_list(schema, key))) for key in COMBINATORS)


def read_pattern(pattern: Any) -> Any:
    """Return a pattern without the slashes of `/^a$/`, and None if it has flags, because schemas have none.

    Slashes around anchors are no part of the text, because nothing could match them.
    """
    match = _LITERAL.fullmatch(pattern) if isinstance(pattern, str) else None
    if match is None:
        return pattern
    inner, flags = match.groups()
    is_anchored = inner.startswith("^") or (inner.endswith("$") and not inner.endswith("\\$"))
    return inner if is_anchored and not flags else None


def allow_null(schema: Schema) -> Schema:
    """Return a schema that also accepts null."""
    if not _BRANCHES.isdisjoint(schema):
        outer = {key: value for key, value in schema.items() if key in _ANNOTATIONS}
        inner = {key: value for key, value in schema.items() if key not in _ANNOTATIONS}
        return {**outer, "anyOf": [inner, {"type": "null"}]}
    types = list_known_types(schema)
    if types and "null" not in types:
        schema["type"] = [*types, "null"]
    if "enum" in schema and None not in schema["enum"]:
        schema["enum"] = [*schema["enum"], None]
    return schema


def accept_members(schema: Schema) -> None:
    """Accept the listed values of a schema, also with the spelling of its type, and in spite of its other keywords."""
    members = list_values(schema)
    if members is None:
        for low, high in _PAIRS:
            if low in schema and high in schema and schema[low] > schema[high]:
                del schema[low], schema[high]
        return
    for key in _LIMITS & schema.keys():
        del schema[key]
    types = list_known_types(schema)
    mistyped_members = [member for member in members if types and not has_type(member, types)]
    stripped_members = [member.strip() for member in members if isinstance(member, str) and member != member.strip()]
    if not mistyped_members and not stripped_members:
        return
    schema.pop("const", None)
    if len(mistyped_members) == len(members) and set(types) <= {"array", "object", "null"}:
        # The members of an array's `enum` are meant to be those of its items. An object has no such reading.
        schema.pop("enum", None)
        items = schema.get("items")
        if "array" in types and isinstance(items, dict) and items.keys() <= {"type"} | _ANNOTATIONS:
            schema["items"] = {**items, "enum": members}
            accept_members(schema["items"])
        return
    values = {_encode(member): member for member in members}
    for member in mistyped_members:
        for type_name in types:
            values.update((_encode(value), value) for value in _convert_member(member, type_name))
    values.update((_encode(member), member) for member in stripped_members)
    schema["enum"] = list(values.values())
    if mistyped_members:
        schema["type"] = list(dict.fromkeys(types + [get_type(member) for member in mistyped_members]))


def _convert_member(member: Any, type_name: str) -> Iterator[Any]:
    """Yield the values of a type with the spelling of a member."""
    if type_name == "string" and not isinstance(member, list | dict):
        yield orjson.dumps(member).decode()
        if isinstance(member, float) and member.is_integer():
            yield str(int(member))
    elif type_name == "boolean" and str(member).lower() in ("true", "false"):
        yield str(member).lower() == "true"
    elif type_name in ("integer", "number") and isinstance(member, str):
        try:
            number = float(member)
        except ValueError:
            return
        if number.is_integer() and abs(number) < 2**53:
            yield int(number)
        elif type_name == "number" and math.isfinite(number):
            yield number


def _encode(value: Any) -> bytes:
    """Return the same text for equal JSON values."""
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    return orjson.dumps(int(value) if is_whole else value)


def list_subtypes(document: ApiDocument, schema: Json, reference: str) -> dict[str, str]:
    """Return the references of subtypes with their values of the discriminator.

    They are the targets of its `mapping`, and the schemas with an `allOf` that refers to the schema, or to a subtype.
    """
    subtypes: dict[str, str] = {}
    for value, target in get_mapping(schema.get("discriminator"), "mapping").items():
        if isinstance(target, str):
            subtype = target if "/" in target else _SCHEMAS + target
            if subtype in subtypes:
                subtypes[subtype] += f", {value}"
            else:
                subtypes[subtype] = str(value)
    visited = {reference}
    stack = [reference]
    while stack and len(visited) < MAX_SUBTYPES:
        for child in document.children.get(stack.pop(), ()):
            if child not in visited:
                visited.add(child)
                stack.append(child)
                subtypes.setdefault(child, child.removeprefix(_SCHEMAS))
    existing_subtypes: dict[str, str] = {}
    for target, value in subtypes.items():
        if target != reference and len(existing_subtypes) < MAX_SUBTYPES:
            with suppress(SourceError):
                document.follow_reference(target)
                existing_subtypes[target] = value
    return existing_subtypes
