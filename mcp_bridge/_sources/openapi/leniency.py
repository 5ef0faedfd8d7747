"""Reads schemas of requests as their authors meant them, so that the style of a document rejects no request.

Documents declare text and list numbers, write patterns as JavaScript does, and close schemas that they extend. Where
several readings make sense, an argument may follow any of them, and the API decides.
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
_LIMITS = (
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
)
_ANNOTATIONS = frozenset({"title", "description", "default", "deprecated", "readOnly", "writeOnly"})
_NOT_EXACT = frozenset(
    {"$ref", "allOf", "anyOf", "oneOf", "additionalProperties", "pattern", "patternProperties", "nullable", "readOnly"}
)
_LITERAL = re.compile(r"/(.+)/([a-z]*)", re.DOTALL)
"""A pattern as JavaScript writes it in code."""


def is_exact(schema: Any) -> bool:
    """Whether a schema converts to the same one. Under `not` and `if`, one that accepts more would reject more."""
    return not has_any_keyword(schema, _NOT_EXACT)


def declares_properties(schema: Any) -> bool:
    """Whether a schema may declare properties, unlike one that only lists required ones."""
    return isinstance(schema, Mapping) and not {"$ref", *MEMBERS}.isdisjoint(schema)


def is_open(schema: Json) -> bool:
    """Whether a schema accepts all properties that it does not declare."""
    return schema.get("additionalProperties", True) in (True, {}) and not schema.get("patternProperties")


def has_other_properties(schema: Json) -> bool:
    """Whether a schema may have more properties than the keyword `properties` lists."""
    properties = get_mapping(schema, "properties")
    if any(as_mapping(value).get("readOnly") is True for value in properties.values()):
        return True
    required = set(map(str, get_list(schema, "required")))
    if schema.get("additionalProperties") is False and not properties.keys() >= required:
        return "patternProperties" not in schema
    return "$ref" in schema or any(
        declares_properties(member) for key in COMBINATORS for member in get_list(schema, key)
    )


def read_pattern(pattern: Any) -> Any:
    """Return a pattern without the slashes of `/^a$/`, and None if it has flags, which schemas cannot express.

    Slashes around anchors are no part of the text, because nothing could match them.
    """
    match = _LITERAL.fullmatch(pattern) if isinstance(pattern, str) else None
    if match is None:
        return pattern
    inner, flags = match.groups()
    is_anchored = inner.startswith("^") or (inner.endswith("$") and not inner.endswith("\\$"))
    return inner if is_anchored and not flags else None


def allow_null(converted: Schema) -> Schema:
    """Return a schema that also accepts null."""
    combinators = ("$ref", "allOf", "anyOf", "oneOf", "not", "if", "const")
    if any(key in converted for key in combinators):
        outer = {key: value for key, value in converted.items() if key in _ANNOTATIONS}
        inner = {key: value for key, value in converted.items() if key not in _ANNOTATIONS}
        return {**outer, "anyOf": [inner, {"type": "null"}]}
    kinds = list_known_types(converted)
    if kinds and "null" not in kinds:
        converted["type"] = [*kinds, "null"]
    if "enum" in converted and None not in converted["enum"]:
        converted["enum"] = [*converted["enum"], None]
    return converted


def accept_members(converted: Schema) -> None:
    """Accept the listed values of a schema, whatever its other keywords say, also if they are written as its type."""
    members = list_values(converted)
    if members is None:
        for low, high in _PAIRS:
            if low in converted and high in converted and converted[low] > converted[high]:
                del converted[low], converted[high]
        return
    for key in _LIMITS:
        converted.pop(key, None)
    kinds = list_known_types(converted)
    others = [member for member in members if kinds and not has_type(member, kinds)]
    trimmed = [member.strip() for member in members if isinstance(member, str) and member != member.strip()]
    if not others and not trimmed:
        return
    if others and len(others) == len(members) and set(kinds) <= {"array", "object", "null"}:
        _move_members(converted, members)
        return
    rewritten = [value for member in others for kind in kinds for value in _rewrite_member(member, kind)]
    unique = {_encode(value): value for value in (*members, *rewritten, *trimmed)}
    converted.pop("const", None)
    converted["enum"] = list(unique.values())
    if others:
        converted["type"] = list(dict.fromkeys([*kinds, *(get_type(member) for member in others)]))


def _move_members(converted: Schema, members: list[Any]) -> None:
    """Read the members of an array's `enum` as those of its items; an object has no such reading."""
    converted.pop("enum", None)
    converted.pop("const", None)
    items = converted.get("items")
    if "array" in list_known_types(converted) and isinstance(items, dict) and items.keys() <= {"type"} | _ANNOTATIONS:
        converted["items"] = {**items, "enum": members}
        accept_members(converted["items"])


def _rewrite_member(member: Any, kind: str) -> Iterator[Any]:
    """Yield the values of a type that are written like a member."""
    if kind == "string" and not isinstance(member, list | dict):
        yield orjson.dumps(member).decode()
        if isinstance(member, float) and member.is_integer():
            yield str(int(member))
    elif kind == "boolean" and str(member).lower() in ("true", "false"):
        yield str(member).lower() == "true"
    elif kind in ("integer", "number") and isinstance(member, str):
        try:
            number = float(member)
        except ValueError:
            return
        if number.is_integer() and abs(number) < 2**53:
            yield int(number)
        elif kind == "number" and math.isfinite(number):
            yield number


def _encode(value: Any) -> bytes:
    """Return the text that equal JSON values share."""
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    return orjson.dumps(int(value) if is_whole else value)


def list_subtypes(document: ApiDocument, schema: Json, reference: str) -> dict[str, str]:
    """Return the references of subtypes with the values of the discriminator that select them.

    They are the targets of its `mapping`, and the schemas with an `allOf` that refers to the schema, or to a subtype.
    """
    subtypes: dict[str, str] = {}
    for value, target in get_mapping(schema.get("discriminator"), "mapping").items():
        if isinstance(target, str):
            subtype = target if "/" in target else _SCHEMAS + target
            values = [subtypes[subtype]] if subtype in subtypes else []
            subtypes[subtype] = ", ".join([*values, str(value)])
    children = {reference: None}
    waiting = [reference]
    while waiting and len(children) < MAX_SUBTYPES:
        for child in document.children.get(waiting.pop(), ()):
            if child not in children:
                children[child] = None
                waiting.append(child)
                subtypes.setdefault(child, child.removeprefix(_SCHEMAS))
    existing: dict[str, str] = {}
    for target, value in subtypes.items():
        if target != reference and len(existing) < MAX_SUBTYPES:
            with suppress(SourceError):
                document.follow_reference(target)
                existing[target] = value
    return existing
