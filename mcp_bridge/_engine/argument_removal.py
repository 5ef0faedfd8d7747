"""Removes arguments that clients do not send from a schema: those with a fixed value, and those without any.

The new schema accepts what a client sends exactly if the original one accepts it together with the fixed values. For
this, the keywords that apply to the arguments as a whole (JSON Schema 2020-12, core 10.2 and validation 6.5) are
evaluated as far as the removed arguments decide them. What cannot be evaluated is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote

from mcp_bridge._json_schema.keywords import DEFINITIONS, walk_schemas
from mcp_bridge._json_schema.merging import merge_schemas, select_constraints
from mcp_bridge._json_schema.references import REFERRING, extend_path, resolve_pointer
from mcp_bridge._json_schema.validator import validate

Schema = dict[str, Any]
_VALUES = (
    "properties", "patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames",
)  # fmt: skip
"""The keywords that check each argument by its own."""
_APPLICATORS = frozenset({"$ref", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"})
"""The keywords with further schemas for the arguments as a whole."""
_SAMPLES = frozenset({"default", "examples"})
"""The keywords with arguments that clients could send, perhaps with removed ones."""
_UNSUPPORTED = frozenset({"$dynamicRef", "$recursiveRef", "const", "enum"})
_OLD_DRAFTS = ("draft-04", "draft-06", "draft-07")
"""Drafts that ignore the keywords beside a reference."""
_MAX_PARTS = 1_000


class UnmatchableSchema(ValueError):
    """No call can match a schema, because of the removed arguments."""


class _SchemaPlace(NamedTuple):
    """Where a schema is: its path, and the references that led there."""

    path: str = "$"
    followed: tuple[str, ...] = ()

    def extend(self, *keys: str | int) -> _SchemaPlace:
        return _SchemaPlace(extend_path(self.path, *keys), self.followed)

    def describe_problem(self, problem: str) -> str:
        return problem if self.path == "$" else f"{self.path}: {problem}"


def list_argument_schemas(root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the parts of a tool's schema that can apply to its arguments as a whole, itself first."""
    waiting: list[Any] = [root]
    seen: set[int] = set()
    while waiting:
        part = waiting.pop()
        if not isinstance(part, Mapping) or id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        waiting += [part.get(key) for key in ("if", "then", "else", "not")]
        waiting += [one for key in ("allOf", "anyOf", "oneOf") for one in _get_list(part, key)]
        waiting += _get_mapping(part, "dependentSchemas").values()
        if isinstance(part.get("$ref"), str):
            waiting.append(resolve_pointer(part["$ref"], root))


class ArgumentRemoval:
    """Removes arguments from the schema `root` of a tool: `hidden` are never sent, `fixed` with every call."""

    def __init__(self, root: Mapping[str, Any], hidden: Set[str], fixed: Mapping[str, Any]) -> None:
        self._root = root
        self._hidden = hidden - fixed.keys()
        self._fixed = dict(fixed)
        self._removed = {*hidden, *fixed}
        self._ignores_siblings = any(name in str(root.get("$schema")) for name in _OLD_DRAFTS)
        self._parts = 0

    def change_schema(self) -> Schema:
        """Return the schema for what clients send. Raises ValueError if there is none, or if it cannot be found."""
        self._check_references()
        changed = self._evaluate(self._root, _SchemaPlace())
        return changed | self._select_definitions(changed)

    def _check_references(self) -> None:
        """Raise ValueError for a reference to what may change: everything but definitions and remaining arguments."""
        kept = _get_mapping(self._root, "properties").keys() - self._removed
        for reference in _list_references(self._root):
            _, first, name, *_ = (*reference.split("/"), "", "")
            is_kept = first in DEFINITIONS or (first == "properties" and name in kept)
            if (reference == "#" or reference.startswith("#/")) and not is_kept:
                raise ValueError(f"the reference '{reference}' in its schema refers to what the override would change")

    def _select_definitions(self, changed: Schema) -> Schema:
        """Return the definitions that a schema still needs. Others may describe removed arguments."""
        given = {key: _get_mapping(self._root, key) for key in DEFINITIONS if key in self._root}
        kept: dict[str, Schema] = {key: {} for key in given}
        waiting: list[Any] = [changed]
        while waiting:
            for reference in _list_references(waiting.pop()):
                _, key, name, *_ = (*unquote(reference).split("/"), "", "")
                name = name.replace("~1", "/").replace("~0", "~")
                if not reference.startswith("#/"):  # an anchor, for example, may be in any of them
                    return dict(given)
                if name in given.get(key, ()) and name not in kept[key]:
                    kept[key][name] = given[key][name]
                    waiting.append(given[key][name])
        return {key: found for key, found in kept.items() if found}

    def _evaluate(self, schema: Any, place: _SchemaPlace) -> Schema:
        """Return what remains of a schema for the arguments as a whole. Raises UnmatchableSchema and ValueError."""
        if not isinstance(schema, Mapping):
            if schema is False:
                raise UnmatchableSchema(place.describe_problem("nothing is allowed"))
            return {}
        self._parts += 1
        if self._parts > _MAX_PARTS:
            raise ValueError("its schema has too many parts to override its arguments")
        if self._ignores_siblings and "$ref" in schema:
            schema = {"$ref": schema["$ref"]}
        self._check_keywords(schema, place)
        left_out = _APPLICATORS | DEFINITIONS | _SAMPLES
        changed = {key: value for key, value in schema.items() if key not in left_out}
        self._check_values(changed, place)
        self._change_requirements(changed, place)
        further = [
            *self._follow_reference(schema, place),
            *self._change_dependencies(schema, place),
            *self._change_condition(schema, place),
            *self._change_negation(schema, place),
            *self._change_alternatives(schema, "anyOf", place),
            *self._change_alternatives(schema, "oneOf", place),
            *(self._evaluate(one, place.extend("allOf", at)) for at, one in enumerate(_get_list(schema, "allOf"))),
        ]
        return _combine_schemas(changed, further)

    def _evaluate_optional(self, schema: Any, place: _SchemaPlace) -> Schema | Literal[False]:
        """Return what remains of a schema that need not match; False if no call can match it."""
        try:
            return self._evaluate(schema, place)
        except UnmatchableSchema:
            return False

    def _check_keywords(self, schema: Mapping[str, Any], place: _SchemaPlace) -> None:
        """Raise ValueError for a keyword that is not evaluated."""
        found = {*(_UNSUPPORTED & schema.keys())}
        if "unevaluatedProperties" in schema and not _APPLICATORS.isdisjoint(schema):
            found.add("unevaluatedProperties")
        if any(self._is_dependency(*pair) for pair in _get_mapping(schema, "dependencies").items()):
            found.add("dependencies")
        if found:
            raise ValueError(f"arguments cannot be hidden or fixed beside '{min(found)}', at {place.path}")

    def _is_dependency(self, name: str, needed: Any) -> bool:
        """Whether an entry of `dependencies`, which newer drafts do not have, may concern removed arguments."""
        return not isinstance(needed, list) or not self._removed.isdisjoint([name, *needed])

    def _check_values(self, changed: Schema, place: _SchemaPlace) -> None:
        """Remove the arguments from the keywords about their values. Raises UnmatchableSchema for a fixed value."""
        own = {key: changed[key] for key in _VALUES if key in changed}
        if own and self._fixed:
            around = {key: self._root[key] for key in ("$schema", *DEFINITIONS) if key in self._root}
            arguments = {"properties": _get_mapping(self._root, "properties")}  # which references can lead to
            whole = own if place.path == "$" else {**arguments, "allOf": [own]}
            if errors := validate(self._fixed, {**around, **whole}).errors:
                problem = f"the values of its arguments do not match its schema: {'; '.join(errors)}"
                raise UnmatchableSchema(place.describe_problem(problem))
        if isinstance(properties := changed.get("properties"), Mapping):
            changed["properties"] = {name: one for name, one in properties.items() if name not in self._removed}
            if not changed["properties"] and place.path != "$":
                del changed["properties"]

    def _change_requirements(self, changed: Schema, place: _SchemaPlace) -> None:
        """Remove the arguments from the keywords about which arguments there are, and how many."""
        required = [name for name in _get_list(changed, "required") if isinstance(name, str)]
        dependent = {
            name: names
            for name, names in _get_mapping(changed, "dependentRequired").items()
            if name not in self._hidden and isinstance(names, list)
        }
        for name in self._fixed:
            required += dependent.pop(name, ())
        if missing := sorted(self._hidden.intersection(required)):
            raise UnmatchableSchema(
                place.describe_problem(f"the argument '{missing[0]}' is required, so it needs a value")
            )
        for name, names in dependent.items():
            if missing := sorted(self._hidden.intersection(names)):
                problem = f"the argument '{missing[0]}' is required with '{name}', so it needs a value"
                raise ValueError(place.describe_problem(problem))
        changed["required"] = [name for name in dict.fromkeys(required) if name not in self._removed]
        changed["dependentRequired"] = {
            name: [one for one in names if one not in self._removed] for name, names in dependent.items()
        }
        for keyword in ("minProperties", "maxProperties"):
            if isinstance(limit := changed.get(keyword), int | float):
                changed[keyword] = max(0, limit - len(self._fixed))
                if keyword == "maxProperties" and limit < len(self._fixed):
                    raise UnmatchableSchema(place.describe_problem(f"at most {limit} arguments are allowed"))
        for keyword in ("required", "dependentRequired", "minProperties"):
            if not changed.get(keyword):
                changed.pop(keyword, None)

    def _follow_reference(self, schema: Mapping[str, Any], place: _SchemaPlace) -> Iterator[Schema]:
        if "$ref" not in schema:
            return
        reference = schema["$ref"]
        target = resolve_pointer(reference, self._root) if isinstance(reference, str) else None
        if target is None or reference in place.followed or (isinstance(target, Mapping) and "$id" in target):
            raise ValueError(
                place.describe_problem(f"the reference {reference!r} cannot be followed to override arguments")
            )
        yield self._evaluate(target, _SchemaPlace(reference, (*place.followed, reference)))

    def _change_dependencies(self, schema: Mapping[str, Any], place: _SchemaPlace) -> Iterator[Schema]:
        kept: Schema = {}
        for name, inner in _get_mapping(schema, "dependentSchemas").items():
            at = place.extend("dependentSchemas", name)
            if name in self._fixed:
                yield self._evaluate(inner, at)
            elif name not in self._hidden:
                kept[name] = self._evaluate_optional(inner, at)
        if kept:
            yield {"dependentSchemas": kept}

    def _change_condition(self, schema: Mapping[str, Any], place: _SchemaPlace) -> Iterator[Schema]:
        if "if" not in schema:
            return
        condition = self._evaluate_optional(schema["if"], place.extend("if"))
        if condition is False:
            yield self._evaluate(schema.get("else", True), place.extend("else"))
        elif not select_constraints(condition):
            yield self._evaluate(schema.get("then", True), place.extend("then"))
        else:
            branches = [key for key in ("then", "else") if key in schema]
            yield {"if": condition} | {key: self._evaluate_optional(schema[key], place.extend(key)) for key in branches}

    def _change_negation(self, schema: Mapping[str, Any], place: _SchemaPlace) -> Iterator[Schema]:
        if "not" not in schema:
            return
        inner = self._evaluate_optional(schema["not"], place.extend("not"))
        if inner is not False and not select_constraints(inner):
            raise UnmatchableSchema(place.extend("not").describe_problem("the values of its arguments are not allowed"))
        if inner is not False:
            yield {"not": inner}

    def _change_alternatives(self, schema: Mapping[str, Any], keyword: str, place: _SchemaPlace) -> Iterator[Schema]:
        """Leave out the alternatives that no call can match. Raises UnmatchableSchema if none is left."""
        if not (given := _get_list(schema, keyword)):
            return
        kept, problem = [], ""
        for index, one in enumerate(given):
            try:
                kept.append(self._evaluate(one, place.extend(keyword, index)))
            except UnmatchableSchema as error:
                problem = str(error)
        undecided = [one for one in kept if select_constraints(one)]
        certain = len(kept) - len(undecided)  # those that each call matches
        if not kept:
            raise UnmatchableSchema(problem)
        if not certain:
            yield kept[0] if len(kept) == 1 else {keyword: kept}
        elif keyword == "oneOf" and certain > 1:
            raise UnmatchableSchema(place.extend(keyword).describe_problem("each call matches several alternatives"))
        elif keyword == "oneOf" and undecided:
            yield {"not": {"anyOf": undecided}}


def _list_references(schema: Any) -> Iterator[str]:
    for _, part in walk_schemas(schema):
        yield from (str(part[keyword]) for keyword in REFERRING & part.keys())


def _combine_schemas(schema: Schema, further: Sequence[Schema]) -> Schema:
    """Return a schema for what matches all of these, flat where that is possible."""
    separate = []
    for part in further:
        merged = merge_schemas(schema, part) if "unevaluatedProperties" not in part else None
        if merged is None:
            separate.append(part)
        else:
            schema = merged
    return {**schema, "allOf": [*schema.get("allOf", ()), *separate]} if separate else schema


def _get_mapping(schema: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = schema.get(key)
    return value if isinstance(value, Mapping) else {}


def _get_list(schema: Mapping[str, Any], key: str) -> list[Any]:
    value = schema.get(key)
    return value if isinstance(value, list) else []
