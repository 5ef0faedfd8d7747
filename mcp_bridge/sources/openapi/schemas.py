"""Converts the schemas of a document to JSON Schema 2020-12, for arguments and for results of tools.

References stay references: each schema that is referred to becomes an entry of `$defs`, so recursion needs no special
case and nothing is expanded. A tool's schema has a maximum size; what exceeds it becomes a schema that accepts all.
Only known keywords with valid values are kept, because one invalid keyword would make the tool unusable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

import orjson

from mcp_bridge.contracts.errors import SourceError
from mcp_bridge.schema.size_limits import MAX_SUBSCHEMAS, sum_references
from mcp_bridge.schema.validator import check_schema
from mcp_bridge.sources.openapi.document import ApiDocument, Json, as_mapping
from mcp_bridge.trust.screening import TextScreen

Schema = dict[str, Any]
Purpose = Literal["arguments", "results", "result types"]
"""What a schema is for. `result types` keeps only the types of values, each of which may also be null."""

MAX_DEPTH = 48
"""The maximum depth of a schema between two references. Clients reject deep schemas, and so does validation."""
BUDGETS = (4_000, 400, 0)
"""The maximum numbers of values in the definitions of one tool; the next one is tried if references multiply them."""
_TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_json(value: Any) -> bool:
    """Whether a value can be sent to clients: integers of more than 64 bits cannot, and documents have them."""
    try:
        orjson.dumps(value)
    except TypeError:
        return False
    return True


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and _is_json(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_pattern(value: Any) -> bool:
    """Whether a pattern can run in linear time, which excludes look-around."""
    return isinstance(value, str) and not check_schema({"pattern": value})


def _is_enum(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and _is_json(value)


_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("title", "description", "format", "contentEncoding", "contentMediaType"), _is_text),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains"), _is_count
    ),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), _is_flag),
    "multipleOf": lambda value: _is_number(value) and value > 0,
    "pattern": _is_pattern,
    "enum": _is_enum,
    "const": _is_json,
    "default": _is_json,
}
_HIDDEN: Mapping[str, str] = {"arguments": "readOnly", "results": "writeOnly", "result types": "writeOnly"}
"""The flag of properties that do not occur."""
_INNER = ("items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else")
_INNER_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")


class _Definition(NamedTuple):
    """A converted definition: the names that it refers to, as often as it does, and its number of values.

    `size` is what it takes of the budget.
    """

    schema: Schema
    references: tuple[str, ...]
    values: int
    size: int = 0


class SchemaConverter:
    """Converts schemas of one document for one purpose. Converted definitions are shared by all tools."""

    def __init__(self, document: ApiDocument, purpose: Purpose, screen: TextScreen) -> None:
        self._document = document
        self._screen = screen
        self._purpose: Purpose = purpose
        self._definitions: dict[str, _Definition] = {}
        self._names: dict[str, str] = {}
        self._references: dict[str, str] = {}
        self._size = 0

    def convert_schema(self, schema: Any) -> Schema:
        """Return a converted schema without its definitions; `add_definitions` adds them."""
        return self._convert_node(schema, 0)

    def add_definitions(self, schema: Schema) -> Schema:
        """Return a schema that `convert_schema` has made parts of, with the definitions that it refers to."""
        root = _measure_definition(schema)
        for budget in BUDGETS:
            definitions = self._collect_definitions(root.references, budget)
            if not definitions:
                return schema
            if budget == 0 or self._count_expanded(root, definitions) <= MAX_SUBSCHEMAS:
                break
        return {**schema, "$defs": definitions}

    def _count_expanded(self, root: _Definition, definitions: Mapping[str, Schema]) -> int:
        """Count the values of a schema with its references followed. Each definition was counted when it was made."""
        parts = {name: self._definitions[name] for name, schema in definitions.items() if schema} | {"": root}
        sizes = {name: part.values for name, part in parts.items()}
        return sum_references("", sizes, {name: part.references for name, part in parts.items()})

    def _collect_definitions(self, references: Iterable[str], budget: int) -> dict[str, Schema]:
        """Collect the definitions that references lead to, the nearest first; those beyond the budget are empty."""
        definitions: dict[str, Schema] = {}
        waiting = list(references)
        for name in waiting:  # grows
            if name not in definitions:
                definition = self._get_definition(name)
                budget -= definition.size
                definitions[name] = definition.schema if budget >= 0 else {}
                waiting += dict.fromkeys(definition.references) if budget >= 0 else ()
        return dict(sorted(definitions.items()))

    def _get_definition(self, name: str) -> _Definition:
        if name not in self._definitions:
            size, self._size = self._size, 0
            try:
                schema = self._convert_node(self._document.follow_reference(self._references.get(name, "")), 0)
            except SourceError:
                schema = {}  # the document is wrong at this place; the API checks the value itself
            self._definitions[name] = _measure_definition(schema)._replace(size=self._size)
            self._size = size
        return self._definitions[name]

    def _name_definition(self, reference: str) -> str:
        if reference not in self._names:
            base = re.sub(r"[^A-Za-z0-9_.-]+", "_", reference.rpartition("/")[2]) or "schema"
            name, number = base, 1
            while name in self._references:
                number += 1
                name = f"{base}_{number}"
            self._names[reference], self._references[name] = name, reference
        return self._names[reference]

    def _convert_node(self, schema: Any, depth: int) -> Schema:
        self._size += 1
        if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
            return {"not": {}} if schema is False and self._purpose != "result types" else {}
        reference = schema.get("$ref")
        if isinstance(reference, str):
            converted: Schema = {"$ref": f"#/$defs/{self._name_definition(reference)}"}
            if self._document.is_3_0:  # which ignores what is beside a reference
                return converted
            return {**converted, **self._convert_keywords(schema, depth)}
        return self._convert_keywords(schema, depth)

    def _convert_keywords(self, schema: Json, depth: int) -> Schema:
        if self._purpose == "result types":
            return self._convert_types(schema, depth)
        converted = {key: schema[key] for key in schema if key in _CHECKS and _CHECKS[key](schema[key])}
        self._size += len(converted)
        for key in ("title", "description"):
            if key in converted:
                converted[key] = self._screen.screen_text(converted[key], "schemas")
        kinds = _list_types(schema)
        if kinds:
            converted["type"] = kinds[0] if len(kinds) == 1 else kinds
        if self._document.is_3_0:
            _convert_limits(schema, converted)
            if schema.get("nullable") is True:
                _add_null(converted)
        if converted.get("format") == "byte":
            del converted["format"]
            converted["contentEncoding"] = "base64"
        self._convert_properties(schema, converted, depth)
        for key in _INNER:
            if isinstance(value := schema.get(key), Mapping | bool):
                converted[key] = value if isinstance(value, bool) else self._convert_node(value, depth + 1)
        for key in _INNER_LISTS:
            if isinstance(value := schema.get(key), list) and value:
                converted[key] = [self._convert_node(one, depth + 1) for one in value]
        return converted

    def _convert_properties(self, schema: Json, converted: Schema, depth: int) -> None:
        properties = schema.get("properties")
        hidden = set()
        if isinstance(properties, Mapping):
            flag = _HIDDEN[self._purpose]
            hidden = {name for name, one in properties.items() if as_mapping(one).get(flag) is True}
            converted["properties"] = {
                str(name): self._convert_node(one, depth + 1) for name, one in properties.items() if name not in hidden
            }
        patterns = schema.get("patternProperties")
        if isinstance(patterns, Mapping):
            valid = {key: self._convert_node(one, depth + 1) for key, one in patterns.items() if _is_pattern(key)}
            if len(valid) == len(patterns):
                converted["patternProperties"] = valid
            elif schema.get("additionalProperties") is not None:
                converted["additionalProperties"] = {}
        required = schema.get("required")
        if isinstance(required, list):
            names = [name for name in dict.fromkeys(map(str, required)) if name not in hidden]
            if names:
                converted["required"] = names

    def _convert_types(self, schema: Json, depth: int) -> Schema:
        converted: Schema = {}
        kinds = _list_types(schema)
        if kinds:
            converted["type"] = list(dict.fromkeys([*kinds, "null"]))
        if isinstance(properties := schema.get("properties"), Mapping):
            converted["properties"] = {
                str(name): self._convert_node(one, depth + 1)
                for name, one in properties.items()
                if as_mapping(one).get("writeOnly") is not True
            }
        for key in ("items", "additionalProperties"):
            if isinstance(value := schema.get(key), Mapping):
                converted[key] = self._convert_node(value, depth + 1)
        for key in ("anyOf", "oneOf", "allOf"):
            if isinstance(value := schema.get(key), list) and value:
                parts = [self._convert_node(one, depth + 1) for one in value]
                if key == "allOf" or "anyOf" not in converted:
                    converted["allOf" if key == "allOf" else "anyOf"] = parts
        return converted


def is_object_schema(document: ApiDocument, schema: Any) -> bool:
    """Whether a schema certainly describes an object. Raises SourceError for a wrong reference."""
    waiting, seen = [schema], set[int]()
    while waiting:
        resolved = document.resolve_node(waiting.pop())
        # A schema can refer to itself, or double at each level.
        if id(resolved) in seen:
            continue
        seen.add(id(resolved))
        kinds = _list_types(resolved)
        if kinds == ["object"] and resolved.get("nullable") is not True:
            return True
        if not kinds and isinstance(resolved.get("properties"), Mapping):
            return True
        parts = resolved.get("allOf")
        if not kinds and isinstance(parts, list):
            waiting += reversed(parts)
    return False


def _list_types(schema: Json) -> list[str]:
    value = schema.get("type")
    kinds = value if isinstance(value, list) else [value]
    known = [kind for kind in kinds if isinstance(kind, str) and kind in _TYPES]
    return list(dict.fromkeys(known)) if len(known) == len(kinds) else []


def _convert_limits(schema: Json, converted: Schema) -> None:
    """Convert `exclusiveMinimum: true` beside `minimum`, as in OpenAPI 3.0."""
    for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if schema.get(exclusive) is True and limit in converted:
            converted[exclusive] = converted.pop(limit)


def _add_null(converted: Schema) -> None:
    """Allow null, as `nullable: true` does in OpenAPI 3.0 beside a `type`."""
    if "type" in converted:
        converted["type"] = [converted["type"], "null"]
        if "enum" in converted and None not in converted["enum"]:
            converted["enum"] = [*converted["enum"], None]


def _measure_definition(schema: Schema) -> _Definition:
    """Count the values of a converted schema, and list the definitions that it refers to, in its order."""
    references: list[str] = []
    values = 0
    stack: list[Any] = [schema]
    while stack:
        node = stack.pop()
        values += 1
        if isinstance(node, dict):
            reference = node.get("$ref")
            if isinstance(reference, str):
                references.append(reference.removeprefix("#/$defs/"))
            stack.extend(reversed(node.values()))
        elif isinstance(node, list):
            stack.extend(reversed(node))
    return _Definition(schema, tuple(references), values)
