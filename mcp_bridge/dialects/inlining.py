"""Schemas without references: what a reference leads to stands in its place.

What leads back to itself ends where it begins again, with a schema that says its type alone.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from mcp_bridge.dialects.budget import Budget, Stays
from mcp_bridge.dialects.combining import constraints, merged, notes_of
from mcp_bridge.schema.extent import Extent
from mcp_bridge.schema.keywords import DEFINITIONS, MAX_DEPTH, mapped
from mcp_bridge.schema.references import REFERRING, Located, References

logger = logging.getLogger("mcp_bridge.dialects")

MOST = 2_000
"""The most subschemas that an inlined schema may come to; a model reads all of them."""
TEXT = 1_000_000
"""The most characters of its JSON."""
_TALLEST = Extent(size=TEXT, nodes=TEXT, depth=100)
"""References multiply levels, too, and readers of JSON refuse what has too many."""
_ADDRESSES = frozenset({"$anchor", "$dynamicAnchor", "$recursiveAnchor", *DEFINITIONS})
_CONTRARY = frozenset({"not", "if", "then", "else", "maxContains", "unevaluatedItems", "unevaluatedProperties"})
_ALONE = ("draft-04", "draft-06", "draft-07")
"""Drafts in which nothing beside a reference counts."""


def inlined(schema: dict[str, Any], *, of: str = "") -> dict[str, Any]:
    """The schema without references; the same object where it has none, or where they cannot be inlined.

    Whatever fits the one fits the other, but for what leads back to itself, of which more fits. `of` is what the log
    calls the schema.
    """
    if not _refers(schema):
        return schema
    try:
        made: dict[str, Any] = _Inlining(schema).schema(None, 0)
        if excess := _TALLEST.excess(made):
            raise Stays(f"it would be {excess}")
    except Stays as reason:
        logger.warning("the references of %s stay: %s", of or "a schema", reason)
        return schema
    return made


class _Inlining:
    """One walk over a schema."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._references = References(root, MOST * 4)
        if self._references.incomplete:
            raise Stays(f"it has more than {MOST * 4} parts")
        said = root.get("$schema")
        self._alone = isinstance(said, str) and any(draft in said for draft in _ALONE)
        self._parts = Budget(MOST, f"it would come to more than {MOST} parts")
        self._text = Budget(TEXT, f"it would come to more than {TEXT} characters")
        self._cut = 0  # how often something that leads back to itself was ended
        self._open = {id(root)}

    def schema(self, located: Located | None, depth: int) -> Any:
        """A part of the schema, the whole of it without one, with nothing left to refer to."""
        at = located or self._references.root
        if not isinstance(at.node, Mapping):
            return at.node
        self._parts.spend()
        if depth > 2 * MAX_DEPTH:
            raise Stays(f"it is deeper than {2 * MAX_DEPTH} levels")
        dropped = _ADDRESSES if located is None else _ADDRESSES | {"$id", "$schema"}
        own = {word: value for word, value in at.node.items() if word not in REFERRING and word not in dropped}
        self._text.spend(len(json.dumps(mapped(own, lambda _: 0))))
        cut = self._cut
        bases = {id(inner.node): inner.base for inner in _below(at)}
        made = mapped(own, lambda part: self.schema(Located(part, bases.get(id(part), at.base)), depth + 1))
        for keyword in sorted(REFERRING & at.node.keys()):
            target = self._target(keyword, at.node[keyword], at.base)
            made = self._beside(self._followed(target, at.node[keyword], depth), made)
        return made if self._cut == cut else _relaxed(made)

    def _target(self, keyword: str, reference: Any, base: str) -> Located:
        found = list(self._references.targets(keyword, reference, base))
        if len(found) != 1 or found[0].node is None:
            raise Stays(f"{reference!r} leads to {'several places' if found[1:] else 'nothing in it'}")
        return found[0]

    def _followed(self, target: Located, reference: str, depth: int) -> Any:
        if id(target.node) in self._open:
            self._cut += 1
            return _again(target.node, reference)
        self._open.add(id(target.node))
        try:
            return self.schema(target, depth + 1)
        finally:
            self._open.discard(id(target.node))

    def _beside(self, target: Any, own: dict[str, Any]) -> dict[str, Any]:
        """What a reference leads to, and what stands beside it."""
        own = notes_of(own) if self._alone else own
        if isinstance(target, bool):
            target = {} if target else {"not": {}}
        made = merged(own, target)
        if made is not None:
            return made
        return {**constraints(own), **notes_of(own), "allOf": [*own.get("allOf", ()), target]}


def _relaxed(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without what would refuse more once something in it takes more."""
    made = {word: value for word, value in schema.items() if word not in _CONTRARY}
    if "oneOf" in made:
        union = {"anyOf": made.pop("oneOf")}
        made |= union if "anyOf" not in made else {"allOf": [*made.get("allOf", ()), union]}
    return made


def _below(at: Located) -> list[Located]:
    """What stands one or two levels below: the schemas among the keywords' values."""
    return [inner for value in at.inner() for inner in (value, *value.inner())]


def _again(node: Any, reference: str) -> dict[str, Any]:
    """What stands for something that is described already, around it."""
    name = node.get("title") if isinstance(node, Mapping) else None
    name = name if isinstance(name, str) and name else reference.rsplit("/", 1)[-1].lstrip("#")
    said = {"type": node["type"]} if isinstance(node, Mapping) and isinstance(node.get("type"), str | list) else {}
    what = f"Another {name}, as it is described above." if name else "As it is described at the top."
    return {**said, "description": what}


def _refers(schema: Any) -> bool:
    """Whether there may be references in it."""
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Mapping):
            if not REFERRING.isdisjoint(node):
                return True
            waiting.extend(node.values())
        elif isinstance(node, list | tuple):
            waiting.extend(node)
    return False
