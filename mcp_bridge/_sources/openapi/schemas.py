"""Converts the schemas of a document to JSON Schema 2020-12, for the arguments and the results of tools.

A document has thousands of schemas that refer to each other in circles, and a tool needs a few of them. So nothing is
expanded: a reference stays a reference, and its target becomes an entry of `$defs` when the first tool needs it.

    {"$ref": "#/components/schemas/Pet"}  ->  {"$ref": "#/$defs/Pet", "$defs": {"Pet": {...}}}

Three things make this more than a copy:

- Documents are inexact. Only known keywords with valid values are kept (`keywords`), because one invalid keyword would
  make the tool unusable, and arguments may follow any sensible reading (`leniency`).
- Suppose that `Dog` extends `Pet` with `allOf`. The `Pet` in it must not be closed, or it would reject the properties
  of `Dog`. It must not show the subtypes of `Pet` either, because they lead back to `Dog`. So an extended schema has a
  second definition, `Pet_base`. The code calls such a schema a part.
- The schema of a tool has a maximum size. Definitions are collected from the nearest to the farthest, and those beyond
  the budget become schemas that accept everything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._json_schema.merging import relax_one_of
from mcp_bridge._json_schema.size_limits import MAX_EXPANDED_VALUES, iter_values, sum_references
from mcp_bridge._json_schema.type_sets import list_types
from mcp_bridge._json_schema.walking import COMBINATORS, get_list, get_mapping, list_references, walk_applied_schemas
from mcp_bridge._sources.openapi.document import ApiDocument, Json, as_mapping, clean_name, number_name
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
"""The budgets for the definitions of a tool, in numbers of values. The next one is tried if references multiply the
values beyond what validation accepts (MAX_EXPANDED_VALUES)."""
_SUBSCHEMA_KEYWORDS = ("items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else")
MAX_MEMBERS = 300
"""The maximum number of schemas that are read for one value, through references and combinators such as `allOf`."""

_DefinitionKey = tuple[str, bool]
"""What a definition is made from: a reference into the document, and whether the target is a part."""


class Position(NamedTuple):
    """The position of a schema during its conversion.

    Attributes:
        depth: The number of levels since the last reference.
        is_part: Whether another schema extends this one, so it is not closed and does not show its subtypes.
        reference: The reference to the schema, if it is a definition.
        hidden: Read-only properties that other schemas of the same object declare. They cannot be required.
    """

    depth: int = 0
    is_part: bool = False
    reference: str = ""
    hidden: frozenset[str] = frozenset()

    def descend(self) -> Position:
        """Return the position of a property or an item."""
        return Position(self.depth + 1)


class _Definition(NamedTuple):
    """A converted definition.

    Attributes:
        references: The names of the definitions it refers to, once for each reference.
        values: The number of values in the converted schema.
        cost: The number of schemas and keywords that were converted for it, which the budget limits.
    """

    schema: Schema
    references: Sequence[str]
    values: int
    cost: int = 0


class SchemaConverter:
    """Converts schemas of one document. Converted definitions are shared by all tools.

    Schemas of arguments accept every sensible reading of the document. With `only_types`, for results, they have only
    the types of values, and each value may also be null.
    """

    def __init__(self, document: ApiDocument, screen: TextScreen, *, only_types: bool = False) -> None:
        self._document = document
        self._screen = screen
        self._only_types = only_types
        self._definitions: dict[str, _Definition] = {}
        self._names: dict[_DefinitionKey, str] = {}
        self._keys: dict[str, _DefinitionKey] = {}
        self._differs_as_part: dict[str, bool] = {}
        # The read-only properties in a mapping of properties, by its `id`. The document keeps these mappings alive.
        self._hidden: dict[int, frozenset[str]] = {}
        # The cost of the definition that is being converted.
        self._cost = 0

    def convert_schema(self, schema: Any) -> Schema:
        """Return a converted schema without its definitions; `add_definitions` adds them."""
        return self._convert_node(schema, Position())

    def add_definitions(self, schema: Schema) -> Schema:
        """Add the definitions to a schema that contains results of `convert_schema`."""
        root = _measure_definition(schema)
        if not root.references:
            return schema
        for budget in BUDGETS:
            definitions = self._collect_definitions(root.references, budget)
            # None is the root.
            values: dict[str | None, int] = {None: root.values}
            references: dict[str | None, Sequence[str]] = {None: root.references}
            for name, definition_schema in definitions.items():
                # Definitions beyond the budget are empty.
                if definition_schema:
                    definition = self._definitions[name]
                    values[name] = definition.values
                    references[name] = definition.references
            if budget == 0 or sum_references(None, values, references) <= MAX_EXPANDED_VALUES:
                break
        return {**schema, "$defs": definitions}

    def _collect_definitions(self, references: Iterable[str], budget: int) -> dict[str, Schema]:
        """Collect the definitions that names refer to, breadth first. Those beyond the budget are empty."""
        definitions: dict[str, Schema] = {}
        queue = deque(references)
        while queue:
            name = queue.popleft()
            if name in definitions:
                continue
            definition = self._get_definition(name)
            budget -= definition.cost
            definitions[name] = {}
            if budget >= 0:
                definitions[name] = definition.schema
                queue += definition.references
        return dict(sorted(definitions.items()))

    def _get_definition(self, name: str) -> _Definition:
        if name not in self._definitions:
            outer_cost, self._cost = self._cost, 0
            try:
                reference, is_part = self._keys.get(name, ("", False))
                target = self._document.follow_reference(reference)
                schema = self._convert_node(target, Position(0, is_part, reference))
            except SourceError:
                # The document is wrong at this place. The API checks the value itself.
                schema = {}
            self._definitions[name] = _measure_definition(schema)._replace(cost=self._cost)
            self._cost = outer_cost
        return self._definitions[name]

    def _name_definition(self, reference: str, is_part: bool) -> str:
        """Return the name of the definition of a reference.

        A part has the name `Pet_base` if it differs from the whole schema: if the schema is closed or has a
        discriminator.
        """
        if is_part and reference not in self._differs_as_part:
            members = [] if self._only_types else self._list_members({"$ref": reference})
            # At the maximum, further members are unknown.
            self._differs_as_part[reference] = len(members) == MAX_MEMBERS or any(
                "discriminator" in member or not is_open(member) for member in members
            )
        has_second_definition = is_part and self._differs_as_part[reference]
        key = reference, has_second_definition
        if key not in self._names:
            name = clean_name(reference.rpartition("/")[2]) or "schema"
            if has_second_definition:
                name = f"{name}_base"
            self._names[key] = number_name(name, self._keys)
            self._keys[self._names[key]] = key
        return self._names[key]

    def _find_hidden(self, schema: Json) -> frozenset[str]:
        """Return the read-only properties of a schema and of those it extends."""
        names: frozenset[str] = frozenset()
        for member in self._list_members(schema):
            properties = get_mapping(member, "properties")
            if id(properties) not in self._hidden:
                self._hidden[id(properties)] = frozenset(_list_properties(properties, "readOnly"))
            names |= self._hidden[id(properties)]
        return names

    def _list_members(self, schema: Json) -> list[Json]:
        """List a schema and all schemas for the same value, at most MAX_MEMBERS."""
        return list(walk_applied_schemas(schema, self._document.data, COMBINATORS, MAX_MEMBERS))

    def _convert_node(self, schema: Any, position: Position) -> Schema:
        self._cost += 1
        if schema is False and not self._only_types:
            return {"not": {}}
        if not isinstance(schema, Mapping) or position.depth > MAX_DEPTH:
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return self._convert_keywords(schema, position)
        # Properties beside a reference extend its target; in OpenAPI 3.0, they have no effect.
        extends_target = not self._document.is_3_0 and not MEMBERS.isdisjoint(schema)
        is_part = position.is_part or extends_target
        result: Schema = {"$ref": f"#/$defs/{self._name_definition(reference, is_part)}"}
        if not self._document.is_3_0:
            # Only OpenAPI 3.0 ignores the keywords beside a reference.
            result |= self._convert_keywords(schema, position)
        # Many documents of all versions write `nullable` beside a reference.
        if schema.get("nullable") is True and not self._only_types:
            return allow_null(result)
        return result

    def _convert_keywords(self, schema: Json, position: Position) -> Schema:
        if self._only_types:
            return self._convert_types(schema, position)
        result = select_keywords(schema)
        self._cost += len(result)
        for key in ("title", "description"):
            if key in result:
                result[key] = self._screen.screen_text(result[key], "schemas")
        types = list_known_types(schema)
        if types:
            result["type"] = types[0] if len(types) == 1 else types
        if self._document.is_3_0:
            # In OpenAPI 3.0, `exclusiveMinimum: true` changes the meaning of `minimum`. In JSON Schema it is a number.
            for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
                if schema.get(exclusive) is True and limit in result:
                    result[exclusive] = result.pop(limit)
        # OpenAPI 3.0 calls base64 the format `byte`.
        if result.get("format") == "byte":
            del result["format"]
            result["contentEncoding"] = "base64"
        self._convert_properties(schema, result, position)
        for key in _SUBSCHEMA_KEYWORDS:
            value = schema.get(key)
            if isinstance(value, bool):
                result[key] = value
            elif isinstance(value, Mapping):
                result[key] = self._convert_node(value, position.descend())
        items = get_list(schema, "prefixItems")
        if items:
            result["prefixItems"] = [self._convert_node(item, position.descend()) for item in items]
        self._convert_combinators(schema, result, position)
        result = self._relax_keywords(schema, result, position)
        result = self._show_subtypes(schema, result, position)
        return allow_null(result) if schema.get("nullable") is True else result

    def _convert_properties(self, schema: Json, result: Schema, position: Position) -> None:
        hidden_names = set(position.hidden)
        properties = schema.get("properties")
        if isinstance(properties, Mapping):
            read_only_names = _list_properties(properties, "readOnly")
            hidden_names.update(read_only_names)
            result["properties"] = self._convert_map(properties, read_only_names, position)
        patterns = schema.get("patternProperties")
        if isinstance(patterns, Mapping):
            if all(map(is_pattern, patterns)):
                result["patternProperties"] = self._convert_map(patterns, (), position)
            elif schema.get("additionalProperties") is not None:
                # Without their patterns, these properties count as additional ones.
                result["additionalProperties"] = {}
        required = schema.get("required")
        if isinstance(required, list):
            if "allOf" in schema:
                hidden_names |= self._find_hidden(schema)
            names = [name for name in dict.fromkeys(map(str, required)) if name not in hidden_names]
            if names:
                result["required"] = names

    def _convert_map(self, schemas: Json, excluded_names: Sequence[str], position: Position) -> dict[str, Schema]:
        converted_schemas = {}
        for name, schema in schemas.items():
            if str(name) not in excluded_names:
                converted_schemas[str(name)] = self._convert_node(schema, position.descend())
        return converted_schemas

    def _convert_combinators(self, schema: Json, result: Schema, position: Position) -> None:
        hidden_names = position.hidden
        if get_list(schema, "allOf"):
            hidden_names |= self._find_hidden(schema)
        for key in COMBINATORS:
            members = get_list(schema, key)
            # The alternatives of a discriminator are the subtypes, which lead back to the schema that extends this one.
            leads_back = position.is_part and "discriminator" in schema and key != "allOf"
            if members and not leads_back:
                is_part = position.is_part or _is_extended(schema, key, position)
                member_position = Position(position.depth + 1, is_part, "", hidden_names)
                result[key] = [self._convert_node(member, member_position) for member in members]

    def _relax_keywords(self, schema: Json, result: Schema, position: Position) -> Schema:
        """Return a schema that accepts the values of every sensible reading of the document."""
        if "pattern" in result:
            pattern = read_pattern(result.pop("pattern"))
            if pattern is not None:
                result["pattern"] = pattern
        for key in ("not", "if"):
            if key in result and not is_exact(schema[key]):
                # A `then` and an `else` that remain have no effect without `if`.
                del result[key]
        if not is_open(schema) and (position.is_part or has_other_properties(schema)):
            result.pop("additionalProperties", None)
        # The alternatives of `oneOf` often overlap, although the document does not mean to reject values of several.
        result = relax_one_of(result)
        accept_members(result)
        return result

    def _show_subtypes(self, schema: Json, result: Schema, position: Position) -> Schema:
        """Return a schema that shows its subtypes, if it has a discriminator.

        Alternatives that are written in the document get a description with their value of the discriminator. Otherwise
        the result is the alternative of all subtypes and the schema itself.
        """
        name = get_mapping(schema, "discriminator").get("propertyName")
        if position.is_part or not isinstance(name, str):
            return result
        descriptions = {}
        for reference, value in list_subtypes(self._document, schema, position.reference).items():
            descriptions[reference] = self._screen.screen_text(f"If {name} is {value}.", "schemas")
        for member in result.get("anyOf", ()):
            reference, _ = self._keys.get(str(member.get("$ref")).removeprefix("#/$defs/"), ("", False))
            if reference in descriptions:
                member.setdefault("description", descriptions[reference])
        if "anyOf" in result or not descriptions:
            return result
        alternatives: list[Schema] = []
        for reference, description in descriptions.items():
            definition = f"#/$defs/{self._name_definition(reference, False)}"
            alternatives.append({"$ref": definition, "description": description})
        alternatives.append(result)
        annotations: Schema = {key: result[key] for key in ("title", "description", "type") if key in result}
        return {**annotations, "anyOf": alternatives}

    def _convert_types(self, schema: Json, position: Position) -> Schema:
        """Convert a schema of results: only the types of values, and null."""
        result: Schema = {}
        types = list_known_types(schema)
        if types:
            result["type"] = list(dict.fromkeys([*types, "null"]))
        properties = schema.get("properties")
        if isinstance(properties, Mapping):
            result["properties"] = self._convert_map(properties, _list_properties(properties, "writeOnly"), position)
        for key in ("items", "additionalProperties"):
            value = schema.get(key)
            if isinstance(value, Mapping):
                result[key] = self._convert_node(value, position.descend())
        for key in COMBINATORS:
            members = get_list(schema, key)
            if members:
                result[key] = [self._convert_node(member, position.descend()) for member in members]
        return relax_one_of(result)


def _list_properties(properties: Json, flag: str) -> list[str]:
    """List the names of properties with a flag: `readOnly` or `writeOnly`."""
    return [str(name) for name, value in properties.items() if as_mapping(value).get(flag) is True]


def is_object_schema(document: ApiDocument, schema: Any) -> bool:
    """Return whether a schema certainly describes an object."""
    if list_types(schema, document.data) != {"object"}:
        return False
    members = walk_applied_schemas(schema, document.data, ("allOf",))
    return not any(member.get("nullable") is True for member in members)


def _is_extended(schema: Json, key: str, position: Position) -> bool:
    """Return whether the members of the combinator `key` are extended: by properties beside it, or by each other."""
    if not (MEMBERS - {key}).isdisjoint(schema):
        return True
    if key != "allOf":
        return False
    # The `allOf` of a definition extends its members. Elsewhere, one member often only adds keywords to a reference,
    # because OpenAPI 3.0 ignores those beside `$ref`.
    return bool(position.reference) or sum(map(declares_properties, schema["allOf"])) > 1


def _measure_definition(schema: Schema) -> _Definition:
    """Count the values of a converted schema, and list the definitions of its references."""
    references = [reference.removeprefix("#/$defs/") for reference in list_references(schema)]
    return _Definition(schema, references, sum(1 for _ in iter_values(schema, ())))
