"""Repairs invalid arguments of some models and some clients.

Some write JSON in a string where the schema wants an object, a list, a number or a boolean. `ArgumentRepair` parses
such a string if it does not fit as it is and its content does:

    schema: {"properties": {"tags": {"type": "array"}, "note": {"type": "string", "minLength": 1}}}
    arguments: {"tags": "[1, 2]", "note": ""}   repaired: {"tags": [1, 2]}

Null and empty texts are left out where the argument is optional. Valid arguments cost one check by the validator.
Otherwise `_ArgumentWalk` walks arguments and schema together. A `_Place` has all schemas for one value, with references
and `allOf` followed. Each place is built once per tool, when the first value needs it. Of alternatives (`anyOf`,
`oneOf`), the first that accepts the repaired value is taken. The numbers of steps, of places and of characters of
compiled schemas are limited, because references and alternatives multiply each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, islice
from typing import Any, Final

import orjson

from mcp_bridge._json_schema.references import REFERRING
from mcp_bridge._json_schema.type_sets import has_type, list_types
from mcp_bridge._json_schema.validator import Validator
from mcp_bridge._json_schema.walking import (
    ANNOTATIONS,
    UNIONS,
    get_list,
    get_mapping,
    select_texts,
    walk_applied_schemas,
)
from mcp_bridge._runtime.exact_json import STRICT

_MAX_DEPTH = 130
"""The maximum number of levels of values and alternatives. Data has 64 levels at most."""
MAX_STEPS = 200_000
"""How many values are examined in one call: alternatives within alternatives multiply them."""
_MAX_SCHEMAS = 64
"""The maximum number of schemas at one place, because references may lead anywhere."""
_MAX_PLACES = 10_000
"""The maximum number of places of a schema. Values at further places stay as they are."""
_MAX_COMPILED = 5_000_000
"""The maximum number of characters of compiled schemas; each place behind a reference compiles a whole one."""
_ROOT_ID = "urn:mcp-bridge:schema"
_PART_NAME = "mcp-bridge.part"
_PLAIN = ANNOTATIONS | {"type"}
_NOT_JSON: Final = object()


class ArgumentRepair:
    """Repairs the arguments of one tool.

    `omitted` are values to leave out where an optional argument does not accept them.
    """

    def __init__(self, schema: Any, *, parse_strings: bool = True, omitted: Sequence[Any] = ()) -> None:
        self._schema = schema
        self._parse_strings = parse_strings
        self._omitted = omitted

    @cached_property
    def _validator(self) -> Validator:
        return Validator(self._schema)

    @cached_property
    def _root(self) -> _Place:
        return _SchemaReader(self._schema).get_place([self._schema])

    def repair(self, arguments: Any) -> Any:
        """Return the same object if the arguments fit, else a repaired copy. Never raises.

        The result may still not fit. The validator checks it again.
        """
        if self._validator.is_valid(arguments):
            return arguments
        try:
            return _ArgumentWalk(self._parse_strings, self._omitted).repair(self._root, arguments, 0)
        except RecursionError:
            # Alternatives can lead to alternatives some hundred times.
            return arguments


class _ArgumentWalk:
    """Compares the arguments of one call with the schema."""

    def __init__(self, parse_strings: bool, omitted: Sequence[Any]) -> None:
        self._parse_strings = parse_strings
        self._omitted = omitted
        self._left = MAX_STEPS
        self._sizes: dict[int, int] = {}
        self._repaired: dict[tuple[int, int], tuple[Any, Any]] = {}

    def repair(self, place: _Place, value: Any, depth: int) -> Any:
        """The repaired value, or the same object if nothing in it is repaired."""
        self._left -= 1
        if self._left < 0 or depth > _MAX_DEPTH or place.is_open:
            return value
        if isinstance(value, str):
            return self._repair_text(place, value, depth) if self._parse_strings else value
        if not isinstance(value, dict | list):
            return value
        key = id(place), id(value)
        if key not in self._repaired:
            # The value stays alive with its copy, so that no other one gets its id.
            self._repaired[key] = value, self._repair_items(place, value, depth)
        return self._repaired[key][1]

    def _repair_items(self, place: _Place, value: Any, depth: int) -> Any:
        value = self._choose_alternative(place, value, depth)
        copy: Any
        if isinstance(value, dict):
            value = self._omit_values(place, value)
            copy = {name: self.repair(place.get_property(name), item, depth + 1) for name, item in value.items()}
            is_equal = all(copy[name] is item for name, item in value.items())
        else:
            copy = [self.repair(place.get_item(index), item, depth + 1) for index, item in enumerate(value)]
            is_equal = all(new is old for new, old in zip(copy, value, strict=True))
        return value if is_equal else copy

    def _repair_text(self, place: _Place, text: str, depth: int) -> Any:
        if place.may_be_text and place.accepts(text):
            return text
        self._left -= len(text) // 16
        value = _parse_json(text)
        if value is _NOT_JSON or isinstance(value, str) or not has_type(value, place.types):
            return text
        return self.repair(place, value, depth + 1)

    def _omit_values(self, place: _Place, value: dict[str, Any]) -> dict[str, Any]:
        """Return the object without optional properties whose omitted value does not fit, or the same object."""
        copy = dict(value)
        for name, item in value.items():
            is_optional = item in self._omitted and name in place.optional_names
            if is_optional and not place.get_property(name).accepts(item):
                del copy[name]
        return copy if len(copy) < len(value) else value

    def _choose_alternative(self, place: _Place, value: Any, depth: int) -> Any:
        """Return the value if an alternative accepts it, else repaired for the first one that accepts the repair."""
        for union in place.unions:
            if any(self._is_accepted(branch, value) for branch in union):
                continue
            for branch in union:
                repaired_value = self.repair(branch, value, depth + 1)
                if repaired_value is not value and self._is_accepted(branch, repaired_value):
                    value = repaired_value
                    break
        return value

    def _is_accepted(self, branch: _Place, value: Any) -> bool:
        """Whether an alternative accepts a value; once the steps are used up, every alternative does."""
        self._left -= self._count_values(value, 0)
        return self._left < 0 or branch.accepts(value)

    def _count_values(self, value: Any, depth: int) -> int:
        if not isinstance(value, dict | list) or depth > _MAX_DEPTH:
            return 1
        if id(value) not in self._sizes:
            items = value.values() if isinstance(value, dict) else value
            self._sizes[id(value)] = 1 + sum(self._count_values(item, depth + 1) for item in items)
        return self._sizes[id(value)]


def _parse_json(text: str) -> Any:
    """The value of a JSON text, or `_NOT_JSON`, also where parsers would differ about the value."""
    try:
        # orjson rejects deep nesting, NaN and lone surrogates.
        orjson.loads(text)
        return STRICT.decode(text)
    except (ValueError, RecursionError):
        return _NOT_JSON


class _SchemaReader:
    """Finds the accepted values at each place of a schema. Each place is read once."""

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self._places: dict[tuple[int, ...], _Place] = {}
        self._validators: dict[str, Validator] = {}
        self._left = _MAX_COMPILED

    def get_place(self, schemas: Sequence[Any]) -> _Place:
        """The place where all of these schemas apply."""
        key = tuple(map(id, schemas))
        if key not in self._places:
            if len(self._places) >= _MAX_PLACES:
                return _Place(self, ())
            self._places[key] = _Place(self, schemas)
        return self._places[key]

    def compile(self, schemas: Sequence[Any]) -> Validator:
        """A validator for all of these schemas; it accepts anything once too much has been compiled."""
        text = repr(schemas)
        if text in self._validators:
            return self._validators[text]
        self._left -= len(text)
        schema: dict[str, Any] = {"allOf": list(schemas)}
        root = self.schema if isinstance(self.schema, Mapping) else {}
        if any(f"'{keyword}'" in text for keyword in REFERRING):
            # The schema becomes a part of the whole, so that its references start at the root of the whole.
            self._left -= self._size
            root_id = root.get("$id")
            if not isinstance(root_id, str) or ":" not in root_id:
                root_id = _ROOT_ID
            definitions = {**get_mapping(root, "$defs"), _PART_NAME: schema}
            whole = {**root, "$id": root_id, "$defs": definitions}
            schema = {"$ref": f"{root_id}#/$defs/{_PART_NAME}", "$defs": {"whole": whole}}
        elif root.get("$schema") is not None:
            schema["$schema"] = root["$schema"]
        if self._left < 0:
            return Validator(True)
        validator = self._validators[text] = Validator(schema)
        return validator

    @cached_property
    def _size(self) -> int:
        return len(repr(self.schema))


class _Place:
    """One place in a schema, with all schemas for its values; references and `allOf` are followed."""

    def __init__(self, reader: _SchemaReader, schemas: Sequence[Any]) -> None:
        self._reader = reader
        self._direct_schemas = tuple(schemas)
        applied_schemas = walk_applied_schemas({"allOf": [*schemas]}, reader.schema, ("allOf",), _MAX_SCHEMAS)
        self._schemas = tuple(islice(applied_schemas, 1, None))
        self._children: dict[str | int | None, _Place] = {}

    @cached_property
    def types(self) -> frozenset[str]:
        """The types of the fitting values."""
        return list_types({"allOf": [*self._direct_schemas]}, self._reader.schema)

    @cached_property
    def may_be_text(self) -> bool:
        """Whether text can fit. A schema without a type accepts text, even if its keywords describe objects."""
        return "string" in list_types({"allOf": [*self._direct_schemas]}, self._reader.schema, is_exact=True)

    @cached_property
    def unions(self) -> tuple[tuple[_Place, ...], ...]:
        """Lists of alternatives; of each list, one alternative must fit."""
        unions = []
        for schema in self._schemas:
            for keyword in UNIONS:
                if alternatives := get_list(schema, keyword):
                    unions.append(tuple(self._reader.get_place([alternative]) for alternative in alternatives))
        return tuple(unions)

    @cached_property
    def is_open(self) -> bool:
        """Whether every value fits."""
        return all(ANNOTATIONS.issuperset(schema) for schema in self._schemas)

    def accepts(self, value: Any) -> bool:
        # Most places have only a type, so text needs no validator there.
        return self.is_open or (self._accepts_any_text and isinstance(value, str)) or self._validator.is_valid(value)

    @cached_property
    def _accepts_any_text(self) -> bool:
        return "string" in self.types and all(map(_PLAIN.issuperset, self._schemas))

    @cached_property
    def _validator(self) -> Validator:
        return self._reader.compile(self._direct_schemas)

    @cached_property
    def _names(self) -> frozenset[str]:
        """The named properties of the schemas. All others share one place."""
        return frozenset(name for schema in self._schemas for name in get_mapping(schema, "properties"))

    @cached_property
    def optional_names(self) -> frozenset[str]:
        """The named properties that are not required."""
        return self._names.difference(*(select_texts(schema.get("required")) for schema in self._schemas))

    def get_property(self, name: str) -> _Place:
        key = name if name in self._names else None
        if key not in self._children:
            schemas = chain.from_iterable(_list_property_schemas(schema, key) for schema in self._schemas)
            self._children[key] = self._reader.get_place(list(schemas))
        return self._children[key]

    def get_item(self, index: int) -> _Place:
        # All items after the longest prefix share one place.
        index = min(index, max((len(_get_prefix(schema)) for schema in self._schemas), default=0))
        if index not in self._children:
            schemas = chain.from_iterable(_list_item_schemas(schema, index) for schema in self._schemas)
            self._children[index] = self._reader.get_place(list(schemas))
        return self._children[index]


def _list_property_schemas(schema: Mapping[str, Any], name: str | None) -> Iterator[Any]:
    """Yield the schemas for a property, or with None for any property without a name in the schema.

    Patterns are ignored: their author may have meant any name.
    """
    properties = get_mapping(schema, "properties")
    if name is not None and name in properties:
        yield properties[name]
    elif not schema.get("patternProperties") and "additionalProperties" in schema:
        yield schema["additionalProperties"]


def _get_prefix(schema: Mapping[str, Any]) -> Sequence[Any]:
    prefix = schema.get("prefixItems", schema.get("items"))
    return prefix if isinstance(prefix, list) else ()


def _list_item_schemas(schema: Mapping[str, Any], index: int) -> Iterator[Any]:
    prefix = _get_prefix(schema)
    if index < len(prefix):
        yield prefix[index]
    else:
        others = schema.get("items")
        if isinstance(others, list):
            others = schema.get("additionalItems")
        if others is not None:
            yield others
