"""Reads schemas of requests as their authors meant them, so the style of a document rejects no request.

Documents declare text and list numbers, write patterns as JavaScript does, and close schemas they extend. If a schema
has several sensible readings, an argument may follow any of them, and the API decides:

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
"""The maximum number of subtypes in the schema of a tool."""
_SCHEMAS = "#/components/schemas/"
_BOUNDS = (("minimum", "maximum"), ("minLength", "maxLength"), ("minItems", "maxItems"))
_LIMITS = frozenset(
    {
        "pattern", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    }
)  # fmt: skip
_ANNOTATIONS = frozenset({"title", "description", "default", "deprecated", "readOnly", "writeOnly"})
_RELAXED_KEYWORDS = frozenset(
    {"$ref", "allOf", "anyOf", "oneOf", "additionalProperties", "pattern", "patternProperties", "nullable", "readOnly"}
)
"""The keywords whose conversion may accept more values than the document."""
_NULL_EXCLUDING_KEYWORDS = frozenset({"$ref", "allOf", "anyOf", "oneOf", "not", "if", "const"})
"""The keywords that may reject null even if `type` and `enum` accept it."""
_REGEX_LITERAL = re.compile(r"/(.+)/([a-z]*)", re.DOTALL)
"""A pattern as a literal of JavaScript: `/^a$/i`."""


def is_exact(schema: Any) -> bool:
    """Return whether a converted schema accepts the same values as the original one.

    Under `not` and `if`, a schema that accepts more values would make the whole reject more.
    """
    return not has_any_keyword(schema, _RELAXED_KEYWORDS)


def declares_properties(schema: Any) -> bool:
    """Return whether a schema may declare properties, and not only list required ones, for example."""
    return isinstance(schema, Mapping) and not {"$ref", *MEMBERS}.isdisjoint(schema)


def is_open(schema: Json) -> bool:
    """Return whether a schema accepts all undeclared properties."""
    return schema.get("additionalProperties", True) in (True, {}) and not schema.get("patternProperties")


def has_other_properties(schema: Json) -> bool:
    """Return whether objects of a schema may have properties that its keyword `properties` does not show in the tool.

    The arguments of a tool may not be closed then.
    """
    properties = get_mapping(schema, "properties")
    # Read-only properties are not shown, but may be sent.
    if any(as_mapping(value).get("readOnly") is True for value in properties.values()):
        return True
    required = set(map(str, get_list(schema, "required")))
    # The schema requires properties that it does not allow, so other schemas have to declare them.
    if schema.get("additionalProperties") is False and not required <= properties.keys():
        return "patternProperties" not in schema
    if "$ref" in schema:
        return True
    return any(any(map(declares_properties, get_list(schema, key))) for key in COMBINATORS)


def read_pattern(pattern: Any) -> Any:
    """Return a pattern without the slashes of `/^a$/`, or None for `/^a$/i`, because schemas have no flags.

    Slashes around anchors cannot be meant as text, because no text could match them. Other patterns are returned as
    they are.
    """
    match = _REGEX_LITERAL.fullmatch(pattern) if isinstance(pattern, str) else None
    if match is None:
        return pattern
    inner, flags = match.groups()
    is_anchored = inner.startswith("^") or (inner.endswith("$") and not inner.endswith("\\$"))
    return inner if is_anchored and not flags else None


def allow_null(schema: Schema) -> Schema:
    """Return a schema that also accepts null."""
    if not _NULL_EXCLUDING_KEYWORDS.isdisjoint(schema):
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
    """Change a schema so that it accepts all members of its `enum` or `const`, whatever its other keywords reject.

    If members have another type than the schema, they are accepted in both: `1` and `"1"` for `type: integer, enum:
    ["1"]`.
    """
    members = list_values(schema)
    if members is None:
        for low, high in _BOUNDS:
            # No value would be valid, so the document cannot mean it.
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
        # The members in the `enum` of an array are meant for its items. For an object, they make no sense.
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
    """Yield the values of a type with the spelling of a member: 1 for "1", and "1" for 1."""
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
    """Return a key for a JSON value. Equal numbers such as 1 and 1.0 have the same key, but 1 and true do not."""
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    return orjson.dumps(int(value) if is_whole else value)


def list_subtypes(document: ApiDocument, schema: Json, reference: str) -> dict[str, str]:
    """Return the references of the subtypes of a schema, each with its value of the discriminator.

    The subtypes are the targets of the discriminator's `mapping`, and all schemas that extend the schema at `reference`
    with `allOf`, directly or through other subtypes.
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
