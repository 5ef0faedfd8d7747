"""Flattens schemas: the combinators at the root become one object with the properties of all alternatives.

Some clients drop a tool with `anyOf`, `allOf` or `if` at the root of its schema. They get a flat schema instead. From
the first of these schemas, `flatten_root` makes the second:

    {"anyOf": [{"properties": {"id": {"type": "integer"}}}, {"properties": {"name": {"type": "string"}}}]}
    {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}

The flat schema accepts at least the values of the original. The original still validates every call, and rejects a
combination of arguments that fits no alternative.

`ShapeBuilder` computes a `Shape` for each schema from the bottom up: the properties, the required ones, and the schema
of all other properties. `_merge_any` joins the shapes of `anyOf`, where a property needs to fit only one of them.
`_merge_all` combines the result with the properties of the schema around it, because they apply too. A property that
occurs only in some alternatives has no certain schema, because the others allow any value. A certain schema of another
part replaces it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mcp_bridge._json_schema.merging import NOTHING, Budget, CannotRewrite, merge_alternatives, merge_schemas
from mcp_bridge._json_schema.references import resolve_pointer
from mcp_bridge._json_schema.type_sets import list_types
from mcp_bridge._json_schema.walking import (
    APPLICATORS,
    UNIONS,
    get_list,
    get_mapping,
    list_references,
    select_texts,
    walk_applied_schemas,
)

logger = logging.getLogger("mcp_bridge.dialects")

ROOT_KEYWORDS = (*APPLICATORS, "dependencies", "enum", "const", "$ref")
"""The keywords that no flat schema has at its root."""
DEPENDENT = ("dependentRequired", "dependentSchemas", "dependencies")
"""Keywords of conditions on a property. `dependencies` is from older drafts, and still checked."""
_CONDITIONAL = frozenset({"not", "if", "dependentSchemas", "dependencies", "enum", "const"})
"""Keywords with conditions that a flat schema cannot express."""
_REPLACED = frozenset({*ROOT_KEYWORDS, "properties", "required", "additionalProperties", "unevaluatedProperties"})
"""Keywords of the root that the shape replaces."""
_MENTIONING = tuple(keyword for keyword in (*APPLICATORS, "dependencies") if keyword != "not")
"""Keywords that lead to schemas with further properties. A property below `not` is forbidden, so it is not listed."""
_MAX_DEPTH = 8
"""The maximum number of levels of combinators. A deeper schema counts as one that accepts anything."""
_MAX_STEPS = 200_000
"""The maximum work for one schema, because alternatives in alternatives multiply it. See `Budget`."""
_STEPS_PER_SCHEMA = 20
"""The steps that each visited schema takes, in addition to one for each of its properties."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatSchema:
    """A schema without combinators at its root. If `omits_conditions`, the original rejects more than this one."""

    schema: dict[str, Any]
    omits_conditions: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The known facts about the properties of an object.

    Attributes:
        properties: The schemas of properties by name.
        certain: The names of those whose schema holds for every alternative.
        required: The names of required properties.
        others: The schema or boolean for all other properties.
    """

    properties: Mapping[str, Any] = field(default_factory=dict)
    certain: frozenset[str] = frozenset()
    required: Sequence[str] = ()
    others: Any = True


_ANY = Shape()


def flatten_root(schema: dict[str, Any], *, label: str = "a schema") -> FlatSchema:
    """Return a schema as a flat object, or the same schema if it is flat already or cannot be flattened.

    `label` names the schema in the log.
    """
    if not any(keyword in schema for keyword in (*ROOT_KEYWORDS, *DEPENDENT)):
        return FlatSchema(schema=schema)
    try:
        return FlatSchema(schema=_flatten(schema), omits_conditions=_has_conditions(schema))
    except CannotRewrite as reason:
        logger.warning("cannot flatten the unions at the top of %s: %s", label, reason)
        return FlatSchema(schema=schema)


def _flatten(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flat form of a schema. Raises CannotRewrite."""
    shape = ShapeBuilder(schema).build_shape(schema)
    if shape is None:
        raise CannotRewrite("no object fits it")
    flat = {keyword: value for keyword, value in schema.items() if keyword not in _REPLACED} | {"type": "object"}
    properties, required = dict(shape.properties), list(shape.required)
    if shape.others is False:
        # A part of the schema may require a property that another part forbids. Clients reject a required property
        # that `properties` does not have.
        required = [name for name in required if name in properties]
    else:
        # A model sends only listed properties, so properties that are only required or only in a condition are listed.
        other_schema = {} if shape.others is True else shape.others
        for name in _list_mentioned(schema):
            properties.setdefault(name, other_schema)
    flat["properties"] = properties
    if required:
        flat["required"] = required
    if shape.others is not True:
        flat["additionalProperties"] = shape.others
    for reference in list_references(flat):
        if reference.startswith("#/") and resolve_pointer(reference, flat) is None:
            # The warning of `flatten_root` continues with "them", the unions.
            raise CannotRewrite("a reference points into them")
    return flat


class ShapeBuilder:
    """Merges an object schema with everything its combinators lead to. Every method may raise CannotRewrite."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._budget = Budget(_MAX_STEPS, f"merging them takes more than {_MAX_STEPS} steps")

    def build_shape(self, schema: Any, depth: int = 0) -> Shape | None:
        """Return the shape of the objects that fit a schema, or None if no object does."""
        if not isinstance(schema, Mapping):
            return None if schema is False else _ANY
        if depth > _MAX_DEPTH:
            return _ANY
        if "object" not in list_types({"type": schema.get("type")}, None):
            return None
        shape = _read_own_shape(schema)
        self._budget.spend(_STEPS_PER_SCHEMA + len(shape.properties) + len(shape.required))
        for group in _list_groups(schema, self._root):
            shapes = []
            for subschema in group:
                alternative = self.build_shape(subschema, depth + 1)
                if alternative is not None:
                    shapes.append(alternative)
            if not shapes:
                return None
            shape = self._merge_all(shape, self._merge_any(shapes))
        # These keywords can evaluate properties that the shape does not have.
        can_evaluate_more = not {"if", "not", "patternProperties", "dependentSchemas"}.isdisjoint(schema)
        if schema.get("unevaluatedProperties") is False and not can_evaluate_more:
            return replace(shape, others=False)
        return shape

    def _merge_all(self, first: Shape, second: Shape) -> Shape:
        """Return the shape of the objects that fit both shapes."""
        property_count = len(first.properties) + len(second.properties)
        self._budget.spend(property_count + len(first.required) + len(second.required))
        properties = dict(first.properties)
        for name, subschema in second.properties.items():
            is_first_certain = name in first.certain
            is_second_certain = name in second.certain
            if name not in properties:
                if first.others is not False:
                    properties[name] = subschema
            elif is_first_certain and is_second_certain:
                merged_schema = merge_schemas(properties[name], subschema)
                # If the two schemas cannot be merged, the first stays alone. It accepts more, and the original still
                # rejects these values.
                if merged_schema is not None:
                    properties[name] = merged_schema
            elif is_second_certain:
                properties[name] = subschema
            elif not is_first_certain:
                properties[name] = merge_alternatives([properties[name], subschema], self._budget)
        required = tuple(dict.fromkeys([*first.required, *second.required]))
        others = first.others
        if first.others is True or second.others is False:
            others = second.others
        return Shape(properties=properties, certain=first.certain | second.certain, required=required, others=others)

    def _merge_any(self, shapes: Sequence[Shape]) -> Shape:
        """Return the shape of the objects that fit at least one of the shapes."""
        # The keys of a dict are unique, and keep their order.
        names: dict[str, None] = {}
        for shape in shapes:
            names |= dict.fromkeys(shape.properties)
        self._budget.spend(len(names) * len(shapes))
        properties, certain = {}, set()
        for name in names:
            alternatives = [shape.properties.get(name, shape.others) for shape in shapes]
            limited_alternatives = [subschema for subschema in alternatives if subschema is not True]
            properties[name] = merge_alternatives(limited_alternatives, self._budget)
            if properties[name] == NOTHING and True in alternatives:
                # One alternative forbids the property, and another accepts any value of it.
                properties[name] = {}
            if all(_is_certain(name, shape) for shape in shapes):
                certain.add(name)
        common = set(shapes[0].required).intersection(*(shape.required for shape in shapes[1:]))
        required = tuple(name for name in shapes[0].required if name in common)
        open_alternatives = [shape.others for shape in shapes if shape.others is not False]
        others: Any
        if not open_alternatives:
            others = False
        elif True in open_alternatives:
            others = True
        else:
            others = merge_alternatives(open_alternatives, self._budget)
        return Shape(properties=properties, certain=frozenset(certain), required=required, others=others)


def _is_certain(name: str, shape: Shape) -> bool:
    """Whether a shape has a certain schema for a property, under its name or in `others`."""
    return name in shape.certain or (name not in shape.properties and shape.others is not True)


def _read_own_shape(schema: Mapping[str, Any]) -> Shape:
    """Return the shape of a schema without its combinators."""
    properties = {}
    for name, subschema in get_mapping(schema, "properties").items():
        properties[name] = {} if subschema is True else subschema
    others = schema.get("additionalProperties", True)
    if schema.get("patternProperties") or others == {}:
        others = True
    required = tuple(select_texts(schema.get("required")))
    return Shape(properties=properties, certain=frozenset(properties), required=required, others=others)


def _list_groups(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Iterable[Sequence[Any]]:
    """Yield the combinators of a schema as lists of schemas. An object must fit one schema of each list.

    `$ref` and each schema of `allOf` are lists with one schema. A reference to the root would never end, so it accepts
    anything. Raises CannotRewrite for a reference to nothing.
    """
    reference = schema.get("$ref")
    if isinstance(reference, str):
        target = resolve_pointer(reference, root)
        if target is None:
            raise CannotRewrite(f"{reference!r} does not resolve")
        yield [True if target is root else target]
    for subschema in get_list(schema, "allOf"):
        yield [subschema]
    for keyword in UNIONS:
        if alternatives := get_list(schema, keyword):
            yield alternatives
    if "if" in schema and ("then" in schema or "else" in schema):
        yield [schema.get("then", True), schema.get("else", True)]
    for keyword in ("dependentSchemas", "dependencies"):
        for subschema in get_mapping(schema, keyword).values():
            yield [subschema, True]


def _has_conditions(root: Mapping[str, Any]) -> bool:
    """Whether the flat schema omits a condition of the original. It keeps only `dependentRequired` of the root."""
    for subschema in walk_applied_schemas(root, root, ("allOf",)):
        if not _CONDITIONAL.isdisjoint(subschema) or any(len(get_list(subschema, keyword)) > 1 for keyword in UNIONS):
            return True
        if subschema is not root and "dependentRequired" in subschema:
            return True
    return False


def _list_mentioned(schema: Mapping[str, Any]) -> Sequence[str]:
    """Return the names of all properties of the object that the schema mentions, such as only in `required`."""
    names: dict[str, None] = {}
    for subschema in walk_applied_schemas(schema, schema, _MENTIONING):
        names |= dict.fromkeys(_list_own_mentions(subschema))
        # A condition "if a property is missing" is usually written `if: {not: {required: [...]}}`. Such a property is
        # not forbidden, although it is below `not`.
        negated_condition = get_mapping(get_mapping(subschema, "if"), "not")
        names |= dict.fromkeys(_list_own_mentions(negated_condition))
    return list(names)


def _list_own_mentions(schema: Mapping[str, Any]) -> Iterator[str]:
    yield from get_mapping(schema, "properties")
    yield from select_texts(schema.get("required"))
    for keyword in DEPENDENT:
        for name, value in get_mapping(schema, keyword).items():
            yield from (name, *select_texts(value))
