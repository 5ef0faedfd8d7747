"""What an object schema comes to once its combinators are followed: its properties, and which of them there must be.

A shape takes all that its schema takes, as far as that names its properties: where a property is described by some of
several alternatives, it is read as it is described there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mcp_bridge.dialects.budget import Budget, Stays
from mcp_bridge.dialects.combining import NOTHING, either, merged
from mcp_bridge.schema.json_pointer import resolve

UNIONS = ("anyOf", "oneOf")
_DEEPEST = 8
"""How deep combinators are followed; what lies deeper takes anything."""
STEPS = 200_000
"""How much is looked at, in all: alternatives within alternatives multiply."""
_STEP = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The properties of an object.

    `sure` are those whose schema holds whatever alternative is taken. `rest` is what other properties must fit: a
    schema, or a truth value.
    """

    properties: Mapping[str, Any] = field(default_factory=dict)
    sure: frozenset[str] = frozenset()
    required: Sequence[str] = ()
    rest: Any = True


ANY = Shape()


class Shapes:
    """One look at a schema from its root. All of it raises Stays where that has no end, or leads elsewhere."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._budget = Budget(STEPS, f"to put them together takes more than {STEPS} steps")

    def of(self, schema: Any, depth: int = 0) -> Shape | None:
        """The shape of the objects that fit a schema; None where no object does."""
        if not isinstance(schema, Mapping):
            return None if schema is False else ANY
        if depth > _DEEPEST:
            return ANY
        if not _takes_objects(schema):
            return None
        made: Shape = _own(schema)
        self._budget.spend(_STEP + len(made.properties) + len(made.required))
        for group in _groups(schema, self._root):
            shapes = [shape for shape in (self.of(part, depth + 1) for part in group) if shape is not None]
            if not shapes:
                return None
            made = self._both(made, self._any_of(shapes))
        return made if schema.get("unevaluatedProperties") is not False or _evaluates_more(schema) else _closed(made)

    def ways(self) -> list[list[Shape]]:
        """The unions at the root, each as its alternatives that are objects."""
        unions = [_list(self._root, word) for word in UNIONS]
        for part in _list(self._root, "allOf"):
            whole = followed(part, self._root)
            if isinstance(whole, Mapping):
                unions += [_list(whole, word) for word in UNIONS]
        shapes = [[self.of(part, 1) for part in union] for union in unions]
        return [[shape for shape in union if shape is not None] for union in shapes]

    def _both(self, one: Shape, other: Shape) -> Shape:
        """The shape of what has both."""
        self._budget.spend(sum(map(len, (one.properties, one.required, other.properties, other.required))))
        made = dict(one.properties)
        for name, part in other.properties.items():
            if name not in made:
                if one.rest is not False:
                    made[name] = part
            elif name in one.sure and name in other.sure:
                together = merged(made[name], part)
                made[name] = together if together is not None else made[name]
            elif name in other.sure:
                made[name] = part
            elif name not in one.sure:
                made[name] = either([made[name], part], self._budget)
        required = dict.fromkeys([*one.required, *other.required])
        rest = _all([one.rest, other.rest])
        return Shape(properties=made, sure=one.sure | other.sure, required=tuple(required), rest=rest)

    def _any_of(self, shapes: Sequence[Shape]) -> Shape:
        """The shape of what has one of these."""
        names = dict.fromkeys(name for shape in shapes for name in shape.properties)
        self._budget.spend(len(names) * len(shapes))
        made, sure = {}, set()
        for name in names:
            alternatives = [shape.properties.get(name, shape.rest) for shape in shapes]
            made[name] = either([part for part in alternatives if part is not True], self._budget)
            if made[name] == NOTHING and True in alternatives:
                made[name] = {}  # one alternative refuses it, another takes it
            if all(name in shape.sure or (name not in shape.properties and shape.rest is not True) for shape in shapes):
                sure.add(name)
        common = set(shapes[0].required).intersection(*(shape.required for shape in shapes[1:]))
        required = [name for name in shapes[0].required if name in common]
        rests = [shape.rest for shape in shapes if shape.rest is not False]
        rest = False if not rests else True if True in rests else either(rests, self._budget)
        return Shape(properties=made, sure=frozenset(sure), required=tuple(required), rest=rest)


def _own(schema: Mapping[str, Any]) -> Shape:
    """What a schema says itself."""
    properties = schema.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    properties = {name: {} if part is True else part for name, part in properties.items()}
    rest = schema.get("additionalProperties", True)
    if schema.get("patternProperties") or rest == {}:
        rest = True
    required = schema.get("required")
    names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    return Shape(properties=properties, sure=frozenset(properties), required=tuple(names), rest=rest)


def _groups(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Iterable[Sequence[Any]]:
    """What must fit besides: lists of schemas, of each of which one must."""
    if isinstance(schema.get("$ref"), str):
        yield [followed(schema, root)]
    for part in _list(schema, "allOf"):
        yield [part]
    for word in UNIONS:
        if alternatives := _list(schema, word):
            yield alternatives
    if "if" in schema and ("then" in schema or "else" in schema):
        yield [schema.get("then", True), schema.get("else", True)]
    for word in ("dependentSchemas", "dependencies"):
        dependent = schema.get(word)
        for part in dependent.values() if isinstance(dependent, Mapping) else ():
            yield [part, True]


def followed(part: Any, root: Mapping[str, Any]) -> Any:
    """What a schema refers to, or itself; the whole takes anything. Raises Stays for one that leads to nothing here."""
    if not isinstance(part, Mapping) or not isinstance(part.get("$ref"), str):
        return part
    found = resolve(part["$ref"], root)
    if found is None:
        raise Stays(f"{part['$ref']!r} leads to nothing in it")
    return True if found is root else found


def _list(schema: Mapping[str, Any], word: str) -> list[Any]:
    value = schema.get(word)
    return value if isinstance(value, list) else []


def _takes_objects(schema: Mapping[str, Any]) -> bool:
    said = schema.get("type")
    return said is None or said == "object" or (isinstance(said, list) and "object" in said)


def _evaluates_more(schema: Mapping[str, Any]) -> bool:
    """Whether more properties may be known to a schema than its shape has."""
    return not {"if", "not", "patternProperties", "dependentSchemas"}.isdisjoint(schema)


def _closed(shape: Shape) -> Shape:
    return Shape(properties=shape.properties, sure=shape.sure, required=shape.required, rest=False)


def _all(rests: Sequence[Any]) -> Any:
    if False in rests:
        return False
    said = [rest for rest in rests if rest is not True]
    return said[0] if said else True
