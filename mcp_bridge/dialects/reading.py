"""A schema read for what it takes at each place: types, parts, and whether a value of a part fits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from mcp_bridge.dialects.combining import values_of
from mcp_bridge.schema.json_pointer import resolve
from mcp_bridge.schema.keywords import ANNOTATIONS
from mcp_bridge.schema.references import REFERRING
from mcp_bridge.schema.validator import Validator

_ALL = frozenset({"string", "number", "integer", "boolean", "null", "object", "array"})
_KINDS: Mapping[type, str] = {
    str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null", dict: "object", list: "array",
}  # fmt: skip
_TOP = "urn:mcp-bridge:schema"
_PART = "mcp-bridge.part"
_MOST = 64
"""The most schemas that one place is held to; a stranger's references may lead anywhere."""
_PARTS = 10_000
"""The most places that are kept of a schema; what stands at others is left as it is."""
_COMPILED = 5_000_000
"""The most characters of schemas that are compiled for places of one: behind a reference it is all of it each time."""
_TYPED = ANNOTATIONS | {"type"}


def kind_of(value: Any) -> str:
    """The type of a JSON value; a number without a fraction is an integer, as JSON Schema has it."""
    if isinstance(value, float) and value.is_integer():
        return "integer"
    return _KINDS.get(type(value), "other")


class Reading:
    """One look at a schema from its root; each place in it is read once, however many values stand there."""

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self._parts: dict[tuple[int, ...], Part] = {}
        self._judges: dict[str, Validator] = {}
        self._left = _COMPILED

    def part(self, schemas: Sequence[Any]) -> Part:
        """The place where all of these hold."""
        key = tuple(map(id, schemas))
        if key not in self._parts:
            if len(self._parts) >= _PARTS:
                return Part(self, ())
            self._parts[key] = Part(self, schemas)
        return self._parts[key]

    def validator(self, schemas: Sequence[Any]) -> Validator:
        """What judges values by all of these; it takes anything once too much was compiled."""
        text = repr(schemas)
        if text not in self._judges:
            refers = any(f"'{word}'" in text for word in REFERRING)
            self._left -= len(text) + (self._size if refers else 0)
            if self._left < 0:
                return Validator(True)
            schema = {"allOf": list(schemas)}
            self._judges[text] = Validator(self._whole(schema) if refers else self._alone(schema))
        return self._judges[text]

    @cached_property
    def _size(self) -> int:
        return len(repr(self.schema))

    def _alone(self, schema: dict[str, Any]) -> dict[str, Any]:
        """A part that needs nothing of the whole but its draft."""
        draft = self.schema.get("$schema") if isinstance(self.schema, Mapping) else None
        return schema if draft is None else {**schema, "$schema": draft}

    def _whole(self, schema: dict[str, Any]) -> dict[str, Any]:
        """A part whose references start at the root of the whole."""
        root = self.schema if isinstance(self.schema, Mapping) else {}
        given = root.get("$id")
        address = given if isinstance(given, str) and ":" in given else _TOP
        definitions = root.get("$defs")
        kept = definitions if isinstance(definitions, Mapping) else {}
        whole = {**root, "$id": address, "$defs": {**kept, _PART: schema}}
        return {"$ref": f"{address}#/$defs/{_PART}", "$defs": {"whole": whole}}


class Part:
    """One place in a schema: what must fit there all at once, references and `allOf` followed."""

    def __init__(self, reading: Reading, schemas: Sequence[Any]) -> None:
        self._reading = reading
        self._given = tuple(schemas)
        self._plain = tuple(_followed(schemas, reading.schema))
        self._children: dict[str | int | None, Part] = {}
        self._types: frozenset[str] | None = None

    @property
    def types(self) -> frozenset[str]:
        """The types of values that can fit."""
        if self._types is None:
            self._types = _ALL  # for alternatives that lead back here
            found = _ALL.intersection(*map(_types, self._plain))
            for union in self.unions:
                found &= frozenset().union(*(branch.types for branch in union))
            self._types = found
        return self._types

    @cached_property
    def unions(self) -> tuple[tuple[Part, ...], ...]:
        """Alternatives of which one must fit, for each such list."""
        groups = [schema[word] for schema in self._plain for word in ("anyOf", "oneOf") if word in schema]
        return tuple(
            tuple(self._reading.part([part]) for part in group) for group in groups if isinstance(group, list) and group
        )

    @cached_property
    def is_open(self) -> bool:
        """Whether everything fits."""
        return all(ANNOTATIONS.issuperset(schema) for schema in self._plain)

    def accepts(self, value: Any) -> bool:
        """Whether a value fits."""
        return self.is_open or (self._takes_text and isinstance(value, str)) or self._validator.is_valid(value)

    @cached_property
    def _takes_text(self) -> bool:
        """Whether any text fits, as can be told without a validator: most places say no more than a type."""
        return all(_TYPED.issuperset(schema) and "string" in _types(schema) for schema in self._plain)

    @cached_property
    def _validator(self) -> Validator:
        return self._reading.validator(self._given)

    @cached_property
    def _names(self) -> frozenset[str]:
        """The names that are described here; of all others there is one place."""
        named = [schema.get("properties") for schema in self._plain]
        return frozenset(name for names in named if isinstance(names, Mapping) for name in names)

    def property(self, name: str) -> Part:
        """The place of a property."""
        known = name if name in self._names else None
        if known not in self._children:
            self._children[known] = self._reading.part([part for one in self._plain for part in _of_name(one, known)])
        return self._children[known]

    def item(self, index: int) -> Part:
        """The place of an item of a list."""
        index = min(index, max((len(_prefix(one)) for one in self._plain), default=0))
        if index not in self._children:
            self._children[index] = self._reading.part([part for one in self._plain for part in _at(one, index)])
        return self._children[index]


def _followed(schemas: Sequence[Any], root: Any) -> Iterator[Mapping[str, Any]]:
    """The schemas with what they refer to and take together; each once."""
    waiting, seen = list(schemas), set[int]()
    while waiting and len(seen) < _MOST:
        schema = waiting.pop(0)
        if id(schema) in seen:
            continue
        seen.add(id(schema))
        if schema is False:
            yield {"enum": []}
        if not isinstance(schema, Mapping):
            continue
        yield schema
        if isinstance(reference := schema.get("$ref"), str):
            waiting.append(resolve(reference, root))
        if isinstance(together := schema.get("allOf"), list):
            waiting += together


def _types(schema: Mapping[str, Any]) -> frozenset[str]:
    said = schema.get("type")
    names = [said] if isinstance(said, str) else said if isinstance(said, list) else _ALL
    types = _ALL & {name for name in names if isinstance(name, str)}
    types |= {"integer"} if "number" in types else set()
    values = values_of(schema)
    return frozenset(types) if values is None else frozenset(types & {kind_of(value) for value in values})


def _of_name(schema: Mapping[str, Any], name: str | None) -> Iterator[Any]:
    """What a schema says of a property; None is one that no schema names.

    Patterns are left out: whoever wrote them may have meant any name.
    """
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and name is not None and name in properties:
        yield properties[name]
    elif not schema.get("patternProperties") and "additionalProperties" in schema:
        yield schema["additionalProperties"]


def _prefix(schema: Mapping[str, Any]) -> Sequence[Any]:
    said = schema.get("prefixItems", schema.get("items"))
    return said if isinstance(said, list) else ()


def _at(schema: Mapping[str, Any], index: int) -> Iterator[Any]:
    prefix = _prefix(schema)
    if index < len(prefix):
        yield prefix[index]
    else:
        rest = schema.get("items") if not isinstance(schema.get("items"), list) else schema.get("additionalItems")
        if rest is not None:
            yield rest
