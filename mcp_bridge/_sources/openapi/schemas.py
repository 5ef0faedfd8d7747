"""Converts the schemas of a document to JSON Schema 2020-12, for arguments and for results of tools.

References stay references: each schema that is referred to becomes an entry of `$defs`, so recursion needs no special
case and nothing is expanded. A tool's schema has a maximum size; what exceeds it becomes a schema that accepts all.
Only known keywords with valid values are kept, because one invalid keyword would make the tool unusable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._json_schema.merging import relax_one_of
from mcp_bridge._json_schema.size_limits import MAX_SUBSCHEMAS, iter_values, sum_references
from mcp_bridge._json_schema.type_sets import list_types
from mcp_bridge._json_schema.walking import COMBINATORS, get_list, get_mapping, list_references, walk_applied_schemas
from mcp_bridge._sources.openapi.document import ApiDocument, Json, as_mapping
from mcp_bridge._sources.openapi.keywords import MEMBERS, is_pattern, list_known_types, select_keywords
from mcp_bridge._sources.openapi.leniency import (
    accept_members,
    allow_null,
    declares_properties,
    has_other_properties,
    is_exact,
    is_open,
    list_subtypes,
    read_pattern,
)
from mcp_bridge._upstream.trust.screening import TextScreen

Schema = dict[str, Any]

MAX_DEPTH = 48
"""The maximum depth of a schema between two references. Clients reject deep schemas, and so does validation."""
BUDGETS = (4_000, 400, 0)
"""The maximum numbers of values in the definitions of one tool; the next one is tried if references multiply them."""
_INNER = ("items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else")
MAX_MEMBERS = 300
"""The maximum number of schemas that are read to see what applies to the same value as a schema."""


class Position(NamedTuple):
    """Where a schema is. `is_part` means that a schema extends it, so it neither is closed nor shows subtypes.

    `reference` leads to the schema if it is a definition, and `hidden` are properties of the whole that do not occur.
    """

    depth: int = 0
    is_part: bool = False
    reference: str = ""
    hidden: frozenset[str] = frozenset()

    def descend(self) -> Position:
        """Return the position of a property or an item."""
        return Position(self.depth + 1)


class _Definition(NamedTuple):
    """A converted definition: the names that it refers to, as often as it does, and its number of values.

    `size` is what it takes of the budget.
    """

    schema: Schema
    references: Sequence[str]
    values: int
    size: int = 0


class SchemaConverter:
    """Converts schemas of one document. Converted definitions are shared by all tools.

    Schemas of arguments accept what any sensible reading of the document allows. With `only_types`, for results, they
    have only the types of values, each of which may also be null.
    """

    def __init__(self, document: ApiDocument, screen: TextScreen, *, only_types: bool = False) -> None:
        self._document = document
        self._screen = screen
        self._only_types = only_types
        self._definitions: dict[str, _Definition] = {}
        self._names: dict[tuple[str, bool], str] = {}
        self._references: dict[str, tuple[str, bool]] = {}
        self._differing: dict[str, bool] = {}
        self._hidden: dict[int, frozenset[str]] = {}
        self._size = 0

    def convert_schema(self, schema: Any) -> Schema:
        """Return a converted schema without its definitions; `add_definitions` adds them."""
        return self._convert_node(schema, Position())

    def add_definitions(self, schema: Schema) -> Schema:
        """Return a schema that `convert_schema` has made parts of, with the definitions that it refers to."""
        root = _measure_definition(schema)
        if not root.references:
            return schema
        for budget in BUDGETS:
            definitions = self._collect_definitions(root.references, budget)
            parts = {name: self._definitions[name] for name, part in definitions.items() if part} | {"": root}
            values = {name: part.values for name, part in parts.items()}
            references = {name: part.references for name, part in parts.items()}
            # Each definition was counted when it was converted.
            if budget == 0 or sum_references("", values, references) <= MAX_SUBSCHEMAS:
                break
        return {**schema, "$defs": definitions}

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
                reference, is_part = self._references.get(name, ("", False))
                target = self._document.follow_reference(reference)
                schema = self._convert_node(target, Position(0, is_part, reference))
            except SourceError:
                schema = {}  # the document is wrong at this place; the API checks the value itself
            self._definitions[name] = _measure_definition(schema)._replace(size=self._size)
            self._size = size
        return self._definitions[name]

    def _name_definition(self, reference: str, is_part: bool) -> str:
        key = reference, is_part and self._differs_as_part(reference)
        if key not in self._names:
            base = re.sub(r"[^A-Za-z0-9_.-]+", "_", reference.rpartition("/")[2]) or "schema"
            base = f"{base}_base" if key[1] else base
            name, number = base, 1
            while name in self._references:
                number += 1
                name = f"{base}_{number}"
            self._names[key], self._references[name] = name, key
        return self._names[key]

    def _differs_as_part(self, reference: str) -> bool:
        """Whether a schema is closed or has subtypes, so that those that extend it need another definition."""
        if reference not in self._differing:
            members = [] if self._only_types else self._list_members({"$ref": reference})
            self._differing[reference] = len(members) == MAX_MEMBERS or any(
                "discriminator" in member or not is_open(member) for member in members
            )
        return self._differing[reference]

    def _find_hidden(self, schema: Json) -> frozenset[str]:
        """Return the names of the properties of a schema, and of what it extends, that do not occur."""
        hidden: frozenset[str] = frozenset()
        for node in self._list_members(schema):
            properties = get_mapping(node, "properties")
            if id(properties) not in self._hidden:
                self._hidden[id(properties)] = frozenset(_list_hidden(properties, "readOnly"))
            hidden |= self._hidden[id(properties)]
        return hidden

    def _list_members(self, schema: Json) -> list[Json]:
        """List a schema and those that apply to the same value, at most MAX_MEMBERS."""
        return list(walk_applied_schemas(schema, self._document.data, COMBINATORS, MAX_MEMBERS))

    def _convert_node(self, schema: Any, position: Position) -> Schema:
        self._size += 1
        if not isinstance(schema, Mapping) or position.depth > MAX_DEPTH:
            return {"not": {}} if schema is False and not self._only_types else {}
        reference = schema.get("$ref")
        if isinstance(reference, str):
            is_part = position.is_part or (not self._document.is_3_0 and not MEMBERS.isdisjoint(schema))
            converted: Schema = {"$ref": f"#/$defs/{self._name_definition(reference, is_part)}"}
            if not self._document.is_3_0:  # which ignores what is beside a reference
                converted |= self._convert_keywords(schema, position)
            # Many documents write `nullable` there, for all versions.
            is_nullable = schema.get("nullable") is True
            return allow_null(converted) if is_nullable and not self._only_types else converted
        return self._convert_keywords(schema, position)

    def _convert_keywords(self, schema: Json, position: Position) -> Schema:
        if self._only_types:
            return self._convert_types(schema, position)
        converted = select_keywords(schema)
        self._size += len(converted)
        for key in ("title", "description"):
            if key in converted:
                converted[key] = self._screen.screen_text(converted[key], "schemas")
        kinds = list_known_types(schema)
        if kinds:
            converted["type"] = kinds[0] if len(kinds) == 1 else kinds
        if self._document.is_3_0:
            _convert_limits(schema, converted)
        if converted.get("format") == "byte":
            del converted["format"]
            converted["contentEncoding"] = "base64"
        self._convert_properties(schema, converted, position)
        for key in _INNER:
            if isinstance(value := schema.get(key), Mapping | bool):
                converted[key] = value if isinstance(value, bool) else self._convert_node(value, position.descend())
        if isinstance(value := schema.get("prefixItems"), list) and value:
            converted["prefixItems"] = [self._convert_node(one, position.descend()) for one in value]
        self._convert_combinators(schema, converted, position)
        converted = self._relax_keywords(schema, converted, position)
        converted = self._show_subtypes(schema, converted, position)
        return allow_null(converted) if schema.get("nullable") is True else converted

    def _convert_combinators(self, schema: Json, converted: Schema, position: Position) -> None:
        lists = {key: members for key in COMBINATORS if (members := get_list(schema, key))}
        if position.is_part and "discriminator" in schema:
            # These are the subtypes, which lead back to the schema that extends this one.
            lists = {key: members for key, members in lists.items() if key == "allOf"}
        hidden = position.hidden
        if "allOf" in lists:
            hidden |= self._find_hidden(schema)
        for key, members in lists.items():
            is_part = position.is_part or _is_extended(schema, key, position)
            inner = Position(position.depth + 1, is_part, "", hidden)
            converted[key] = [self._convert_node(member, inner) for member in members]

    def _relax_keywords(self, schema: Json, converted: Schema, position: Position) -> Schema:
        """Return a schema without what rejects values that a sensible reading of the document allows."""
        if "pattern" in converted:
            pattern = read_pattern(converted.pop("pattern"))
            if pattern is not None:
                converted["pattern"] = pattern
        for key in ("not", "if"):
            if key in converted and not is_exact(schema[key]):
                del converted[key]
        if not is_open(schema) and (position.is_part or has_other_properties(schema)):
            converted.pop("additionalProperties", None)
        # Alternatives overlap more often than they are meant to exclude each other.
        converted = relax_one_of(converted)
        accept_members(converted)
        return converted

    def _show_subtypes(self, schema: Json, converted: Schema, position: Position) -> Schema:
        """Return a schema with a discriminator as the alternatives of its subtypes and itself."""
        name = as_mapping(schema.get("discriminator")).get("propertyName")
        if position.is_part or not isinstance(name, str):
            return converted
        subtypes = {
            reference: self._screen.screen_text(f"If {name} is {value}.", "schemas")
            for reference, value in list_subtypes(self._document, schema, position.reference).items()
        }
        for member in converted.get("anyOf", ()):
            reference, _ = self._references.get(str(member.get("$ref")).removeprefix("#/$defs/"), ("", False))
            if reference in subtypes:
                member.setdefault("description", subtypes[reference])
        if "anyOf" in converted or not subtypes:
            return converted
        alternatives = [
            {"$ref": f"#/$defs/{self._name_definition(reference, False)}", "description": description}
            for reference, description in subtypes.items()
        ]
        outer: Schema = {key: converted[key] for key in ("title", "description", "type") if key in converted}
        return {**outer, "anyOf": [*alternatives, converted]}

    def _convert_properties(self, schema: Json, converted: Schema, position: Position) -> None:
        properties = schema.get("properties")
        hidden: set[str] = set()
        if isinstance(properties, Mapping):
            hidden.update(_list_hidden(properties, "readOnly"))
            converted["properties"] = {
                str(name): self._convert_node(value, position.descend())
                for name, value in properties.items()
                if str(name) not in hidden
            }
        patterns = schema.get("patternProperties")
        if isinstance(patterns, Mapping):
            valid = {
                key: self._convert_node(value, position.descend()) for key, value in patterns.items() if is_pattern(key)
            }
            if len(valid) == len(patterns):
                converted["patternProperties"] = valid
            elif schema.get("additionalProperties") is not None:
                converted["additionalProperties"] = {}
        required = schema.get("required")
        if isinstance(required, list):
            hidden |= position.hidden
            if "allOf" in schema:
                hidden |= self._find_hidden(schema)
            names = [name for name in dict.fromkeys(map(str, required)) if name not in hidden]
            if names:
                converted["required"] = names

    def _convert_types(self, schema: Json, position: Position) -> Schema:
        converted: Schema = {}
        kinds = list_known_types(schema)
        if kinds:
            converted["type"] = list(dict.fromkeys([*kinds, "null"]))
        if isinstance(properties := schema.get("properties"), Mapping):
            hidden = _list_hidden(properties, "writeOnly")
            converted["properties"] = {
                str(name): self._convert_node(one, position.descend())
                for name, one in properties.items()
                if str(name) not in hidden
            }
        for key in ("items", "additionalProperties"):
            if isinstance(value := schema.get(key), Mapping):
                converted[key] = self._convert_node(value, position.descend())
        for key in COMBINATORS:
            if members := get_list(schema, key):
                converted[key] = [self._convert_node(member, position.descend()) for member in members]
        return relax_one_of(converted)


def _list_hidden(properties: Json, flag: str) -> list[str]:
    """List the properties that do not occur, because they have a flag."""
    return [str(name) for name, value in properties.items() if as_mapping(value).get(flag) is True]


def is_object_schema(document: ApiDocument, schema: Any) -> bool:
    """Whether a schema certainly describes an object."""
    parts = walk_applied_schemas(schema, document.data, ("allOf",))
    return list_types(schema, document.data) == {"object"} and not any(part.get("nullable") is True for part in parts)


def _convert_limits(schema: Json, converted: Schema) -> None:
    """Convert `exclusiveMinimum: true` beside `minimum`, as in OpenAPI 3.0."""
    for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if schema.get(exclusive) is True and limit in converted:
            converted[exclusive] = converted.pop(limit)


def _is_extended(schema: Json, key: str, position: Position) -> bool:
    """Whether the members of a combinator are extended: by properties beside it, or by each other.

    An `allOf` often has one member only because nothing else could be beside a reference.
    """
    if not (MEMBERS - {key}).isdisjoint(schema):
        return True
    if key != "allOf":
        return False
    return bool(position.reference) or sum(map(declares_properties, schema["allOf"])) > 1


def _measure_definition(schema: Schema) -> _Definition:
    """Count the values of a converted schema, and list the definitions that it refers to."""
    references = [reference.removeprefix("#/$defs/") for reference in list_references(schema)]
    return _Definition(schema, references, sum(1 for _ in iter_values(schema, ())))
