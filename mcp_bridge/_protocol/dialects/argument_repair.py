"""Repairs invalid arguments of some models and clients.

Some write JSON in a string where the schema wants an object, a list, a number or a boolean. `ArgumentRepair` parses
such a string if the string itself does not fit and its content does. With `omitted`, it also leaves out nulls and empty
texts where the argument is optional:

    schema: {"properties": {"tags": {"type": "array"}, "note": {"type": "string", "minLength": 1}}}
    arguments: {"tags": "[1, 2]", "note": ""}   repaired: {"tags": [1, 2]}

Valid arguments cost one check by the validator. For others, `_ArgumentWalk` walks arguments and schema together. A
`_Place` has all schemas for one value, after following references and `allOf`. Each place is built once per tool, when
the first value needs it. Of alternatives (`anyOf`, `oneOf`), the walk uses the first that accepts the repaired value.
The numbers of steps, of places and of characters of compiled schemas are limited, because references and alternatives
multiply each other.
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
"""The maximum number of values that one call examines. Alternatives within alternatives multiply them."""
_MAX_SCHEMAS = 64
"""The maximum number of schemas at one place. References and `allOf` can add any number."""
_MAX_PLACES = 10_000
"""The maximum number of places of a schema. Values at further places stay as they are."""
_MAX_COMPILED = 5_000_000
"""The maximum number of characters of compiled schemas. Each place with a reference compiles the whole schema again."""
_ROOT_ID = "urn:mcp-bridge:schema"
_PART_NAME = "mcp-bridge.part"
_TYPE_ONLY = ANNOTATIONS | {"type"}
_NOT_JSON: Final = object()


class ArgumentRepair:
    """Repairs the arguments of one tool.

    Args:
        schema: The input schema of the tool.
        parse_strings: Whether to parse JSON in strings.
        omitted: Values to leave out where an optional argument does not accept them.
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
        """Return valid arguments unchanged, and a repaired copy of others. Never raises.

        The copy may still be invalid, so the pipeline validates it.
        """
        if self._validator.is_valid(arguments):
            return arguments
        try:
            return _ArgumentWalk(self._parse_strings, self._omitted).repair(self._root, arguments, 0)
        except RecursionError:
            # Chains of alternatives can be deeper than Python's stack.
            return arguments


class _ArgumentWalk:
    """Repairs the arguments of one call, together with their schema from the root down."""

    def __init__(self, parse_strings: bool, omitted: Sequence[Any]) -> None:
        self._parse_strings = parse_strings
        self._omitted = omitted
        self._steps_left = MAX_STEPS
        # The numbers of values within values, and the repaired values by places, so that nothing is computed twice.
        self._sizes: dict[int, int] = {}
        self._repaired: dict[tuple[int, int], tuple[Any, Any]] = {}

    def repair(self, place: _Place, value: Any, depth: int) -> Any:
        """Return the repaired value, or the same object if nothing in it is repaired."""
        self._steps_left -= 1
        if self._steps_left < 0 or depth > _MAX_DEPTH or place.is_open:
            return value
        if isinstance(value, str):
            return self._repair_text(place, value, depth) if self._parse_strings else value
        if not isinstance(value, dict | list):
            return value
        key = id(place), id(value)
        if key not in self._repaired:
            # The dict also keeps the value itself alive, because a new object could otherwise have the same id.
            self._repaired[key] = value, self._repair_items(place, value, depth)
        return self._repaired[key][1]

    def _repair_items(self, place: _Place, value: Any, depth: int) -> Any:
        """Return an object or a list with repaired items, or the same object if nothing is repaired."""
        value = self._choose_alternative(place, value, depth)
        copy: Any
        if isinstance(value, dict):
            value = self._omit_values(place, value)
            copy = {name: self.repair(place.get_property(name), item, depth + 1) for name, item in value.items()}
            is_unchanged = all(copy[name] is item for name, item in value.items())
        else:
            copy = [self.repair(place.get_item(index), item, depth + 1) for index, item in enumerate(value)]
            is_unchanged = all(new is old for new, old in zip(copy, value, strict=True))
        return value if is_unchanged else copy

    def _repair_text(self, place: _Place, text: str, depth: int) -> Any:
        """Return the value of a JSON text if the text itself does not fit and its value has a fitting type."""
        if place.may_be_text and place.accepts(text):
            return text
        # Parsing a text costs steps in proportion to its length, too.
        self._steps_left -= len(text) // 16
        value = _parse_json(text)
        if value is _NOT_JSON or isinstance(value, str) or not has_type(value, place.types):
            return text
        return self.repair(place, value, depth + 1)

    def _omit_values(self, place: _Place, value: dict[str, Any]) -> dict[str, Any]:
        """Return the object without optional properties with an unfitting `omitted` value."""
        copy = dict(value)
        for name, item in value.items():
            is_optional = item in self._omitted and name in place.optional_names
            if is_optional and not place.get_property(name).accepts(item):
                del copy[name]
        return copy if len(copy) < len(value) else value

    def _choose_alternative(self, place: _Place, value: Any, depth: int) -> Any:
        """Return the value if an alternative accepts it. Else repair it for the first alternative with success."""
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
        """Whether an alternative accepts a value. When no steps are left, the answer is yes, to end the search."""
        self._steps_left -= self._count_values(value, 0)
        return self._steps_left < 0 or branch.accepts(value)

    def _count_values(self, value: Any, depth: int) -> int:
        if not isinstance(value, dict | list) or depth > _MAX_DEPTH:
            return 1
        if id(value) not in self._sizes:
            items = value.values() if isinstance(value, dict) else value
            self._sizes[id(value)] = 1 + sum(self._count_values(item, depth + 1) for item in items)
        return self._sizes[id(value)]


def _parse_json(text: str) -> Any:
    """Return the value of a JSON text, or `_NOT_JSON`, also if JSON parsers read the text differently."""
    try:
        # orjson rejects deep nesting, NaN and lone surrogates. `STRICT` rejects duplicate names, and reads large
        # integers exactly.
        orjson.loads(text)
        return STRICT.decode(text)
    except (ValueError, RecursionError):
        return _NOT_JSON


class _SchemaReader:
    """Builds the places of a schema and their validators, each of them once."""

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self._places: dict[tuple[int, ...], _Place] = {}
        self._validators: dict[str, Validator] = {}
        self._characters_left = _MAX_COMPILED

    def get_place(self, schemas: Sequence[Any]) -> _Place:
        """Return the place where all of these schemas apply."""
        key = tuple(map(id, schemas))
        if key not in self._places:
            if len(self._places) >= _MAX_PLACES:
                # A place without schemas accepts every value.
                return _Place(self, ())
            self._places[key] = _Place(self, schemas)
        return self._places[key]

    def compile(self, schemas: Sequence[Any]) -> Validator:
        """Return a validator for all of these schemas. After `_MAX_COMPILED` characters, it accepts anything."""
        text = repr(schemas)
        if text in self._validators:
            return self._validators[text]
        self._characters_left -= len(text)
        schema: dict[str, Any] = {"allOf": list(schemas)}
        root = self.schema if isinstance(self.schema, Mapping) else {}
        if any(f"'{keyword}'" in text for keyword in REFERRING):
            # References start at the root of the whole schema, so this schema becomes one of its definitions.
            self._characters_left -= self._size
            root_id = root.get("$id")
            if not isinstance(root_id, str) or ":" not in root_id:
                root_id = _ROOT_ID
            definitions = {**get_mapping(root, "$defs"), _PART_NAME: schema}
            whole = {**root, "$id": root_id, "$defs": definitions}
            schema = {"$ref": f"{root_id}#/$defs/{_PART_NAME}", "$defs": {"whole": whole}}
        elif root.get("$schema") is not None:
            schema["$schema"] = root["$schema"]
        if self._characters_left < 0:
            return Validator(True)
        validator = self._validators[text] = Validator(schema)
        return validator

    @cached_property
    def _size(self) -> int:
        """The number of characters of the whole schema."""
        return len(repr(self.schema))


class _Place:
    """A place in a schema, such as a property, with all schemas for its values."""

    def __init__(self, reader: _SchemaReader, schemas: Sequence[Any]) -> None:
        self._reader = reader
        self._direct_schemas = tuple(schemas)
        # These are the direct schemas, and those that references and `allOf` lead to. The first is the wrapper itself.
        applied_schemas = walk_applied_schemas({"allOf": [*schemas]}, reader.schema, ("allOf",), _MAX_SCHEMAS)
        self._schemas = tuple(islice(applied_schemas, 1, None))
        self._children: dict[str | int | None, _Place] = {}

    @cached_property
    def types(self) -> frozenset[str]:
        """The types of fitting values."""
        return list_types({"allOf": [*self._direct_schemas]}, self._reader.schema)

    @cached_property
    def may_be_text(self) -> bool:
        """Whether text can fit, strictly by the schema: without a type, keywords of objects accept every text."""
        return "string" in list_types({"allOf": [*self._direct_schemas]}, self._reader.schema, is_exact=True)

    @cached_property
    def unions(self) -> tuple[tuple[_Place, ...], ...]:
        """Lists of alternatives. A value must fit one alternative of each list."""
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
        """Whether a value fits."""
        # Most places have only a type, so text needs no validator there.
        if self.is_open or (self._accepts_any_text and isinstance(value, str)):
            return True
        return self._validator.is_valid(value)

    @cached_property
    def _accepts_any_text(self) -> bool:
        return "string" in self.types and all(_TYPE_ONLY.issuperset(schema) for schema in self._schemas)

    @cached_property
    def _validator(self) -> Validator:
        return self._reader.compile(self._direct_schemas)

    @cached_property
    def _names(self) -> frozenset[str]:
        """The named properties of the schemas. All others share one place."""
        names: set[str] = set()
        for schema in self._schemas:
            names.update(get_mapping(schema, "properties"))
        return frozenset(names)

    @cached_property
    def optional_names(self) -> frozenset[str]:
        """The named properties that are not required."""
        return self._names.difference(*(select_texts(schema.get("required")) for schema in self._schemas))

    def get_property(self, name: str) -> _Place:
        """Return the place of a property. All properties without a name in the schemas share one."""
        key = name if name in self._names else None
        if key not in self._children:
            schemas = chain.from_iterable(_list_property_schemas(schema, key) for schema in self._schemas)
            self._children[key] = self._reader.get_place(list(schemas))
        return self._children[key]

    def get_item(self, index: int) -> _Place:
        """Return the place of an item of a list. All items after the longest prefix share one."""
        longest_prefix = max((len(_get_prefix(schema)) for schema in self._schemas), default=0)
        index = min(index, longest_prefix)
        if index not in self._children:
            schemas = chain.from_iterable(_list_item_schemas(schema, index) for schema in self._schemas)
            self._children[index] = self._reader.get_place(list(schemas))
        return self._children[index]


def _list_property_schemas(schema: Mapping[str, Any], name: str | None) -> Iterator[Any]:
    """Yield the schemas for a property. With None, these are the schemas for properties without a name in the schema.

    If there are `patternProperties`, there are none of these, because a pattern may or may not match the name.
    """
    properties = get_mapping(schema, "properties")
    if name is not None and name in properties:
        yield properties[name]
    elif not schema.get("patternProperties") and "additionalProperties" in schema:
        yield schema["additionalProperties"]


def _get_prefix(schema: Mapping[str, Any]) -> Sequence[Any]:
    """Return the schemas for the first items. Drafts before 2020-12 have them in a list of `items`."""
    prefix = schema.get("prefixItems", schema.get("items"))
    return prefix if isinstance(prefix, list) else ()


def _list_item_schemas(schema: Mapping[str, Any], index: int) -> Iterator[Any]:
    """Yield the schemas for the item at an index."""
    prefix = _get_prefix(schema)
    if index < len(prefix):
        yield prefix[index]
    else:
        others = schema.get("items")
        if isinstance(others, list):
            others = schema.get("additionalItems")
        if others is not None:
            yield others
