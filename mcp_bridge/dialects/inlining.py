"""Schemas without references: what a reference leads to replaces it.

A schema that leads back to itself ends where it would begin again, with a schema that only has its type.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from mcp_bridge.dialects.schema_algebra import Budget, CannotRewrite, merge_schemas, select_constraints, select_notes
from mcp_bridge.schema.keywords import DEFINITIONS, MAX_DEPTH, has_any_keyword, map_subschemas
from mcp_bridge.schema.references import REFERRING, LocatedSchema, SchemaReferences
from mcp_bridge.schema.size_limits import SizeLimits

logger = logging.getLogger("mcp_bridge.dialects")

MAX_PARTS = 2_000
"""The maximum number of subschemas of an inlined schema: a model reads all of them."""
MAX_CHARACTERS = 1_000_000
_MAX_SIZE = SizeLimits(size=MAX_CHARACTERS, nodes=MAX_CHARACTERS, depth=100)
"""References multiply levels too, and JSON parsers reject deep nesting."""
_ADDRESSES = frozenset({"$anchor", "$dynamicAnchor", "$recursiveAnchor", *DEFINITIONS})
_CONTRARY = frozenset({"not", "if", "then", "else", "maxContains", "unevaluatedItems", "unevaluatedProperties"})
_OLD_DRAFTS = ("draft-04", "draft-06", "draft-07")
"""Drafts that ignore the keywords beside a reference."""


def inline_references(schema: dict[str, Any], *, label: str = "a schema") -> dict[str, Any]:
    """The schema without references; the same object if it has none or they cannot be inlined.

    Both schemas accept the same values, except that the result accepts more where the original leads back to itself.
    `label` names the schema in the log.
    """
    if not has_any_keyword(schema, REFERRING):
        return schema
    try:
        inlined: dict[str, Any] = _Inliner(schema).inline(None, 0)
        if excess := _MAX_SIZE.describe_excess(inlined):
            raise CannotRewrite(f"it would be {excess}")
    except CannotRewrite as reason:
        logger.warning("cannot inline the references of %s: %s", label, reason)
        return schema
    return inlined


class _Inliner:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._references = SchemaReferences(root, MAX_PARTS * 4)
        if self._references.is_incomplete:
            raise CannotRewrite(f"it has more than {MAX_PARTS * 4} parts")
        draft = root.get("$schema")
        self._is_old_draft = isinstance(draft, str) and any(name in draft for name in _OLD_DRAFTS)
        self._parts = Budget(MAX_PARTS, f"it would come to more than {MAX_PARTS} parts")
        self._characters = Budget(MAX_CHARACTERS, f"it would come to more than {MAX_CHARACTERS} characters")
        self._loops = 0  # how often a schema that leads back to itself was ended
        self._open = {id(root)}

    def inline(self, located: LocatedSchema | None, depth: int) -> Any:
        """A part of the schema without references; None means the root."""
        at = located or self._references.root
        if not isinstance(at.node, Mapping):
            return at.node
        self._parts.spend()
        if depth > 2 * MAX_DEPTH:
            raise CannotRewrite(f"it is deeper than {2 * MAX_DEPTH} levels")
        dropped = _ADDRESSES if located is None else _ADDRESSES | {"$id", "$schema"}
        own = {word: value for word, value in at.node.items() if word not in REFERRING and word not in dropped}
        self._characters.spend(len(json.dumps(map_subschemas(own, lambda _: 0))))
        loops = self._loops
        # the schemas among the keywords' values are one or two levels below
        bases = {id(inner.node): inner.base for value in at.iter_inner() for inner in (value, *value.iter_inner())}
        copy = map_subschemas(
            own, lambda part: self.inline(LocatedSchema(part, bases.get(id(part), at.base)), depth + 1)
        )
        for keyword in sorted(REFERRING & at.node.keys()):
            target = self._find_target(keyword, at.node[keyword], at.base)
            copy = self._merge_target(self._inline_target(target, at.node[keyword], depth), copy)
        return copy if self._loops == loops else _remove_contrary_keywords(copy)

    def _find_target(self, keyword: str, reference: Any, base: str) -> LocatedSchema:
        targets = list(self._references.find_targets(keyword, reference, base))
        if len(targets) != 1 or targets[0].node is None:
            raise CannotRewrite(f"{reference!r} {'has several targets' if targets[1:] else 'does not resolve'}")
        return targets[0]

    def _inline_target(self, target: LocatedSchema, reference: str, depth: int) -> Any:
        if id(target.node) in self._open:
            self._loops += 1
            return _make_placeholder(target.node, reference)
        self._open.add(id(target.node))
        try:
            return self.inline(target, depth + 1)
        finally:
            self._open.discard(id(target.node))

    def _merge_target(self, target: Any, own: dict[str, Any]) -> dict[str, Any]:
        """The target of a reference, combined with the keywords beside the reference."""
        own = select_notes(own) if self._is_old_draft else own
        if isinstance(target, bool):
            target = {} if target else {"not": {}}
        if (merged := merge_schemas(own, target)) is not None:
            return merged
        return {**select_constraints(own), **select_notes(own), "allOf": [*own.get("allOf", ()), target]}


def _remove_contrary_keywords(schema: dict[str, Any]) -> dict[str, Any]:
    """Removes what would reject more values once something inside the schema accepts more."""
    relaxed = {word: value for word, value in schema.items() if word not in _CONTRARY}
    if "oneOf" in relaxed:
        union = {"anyOf": relaxed.pop("oneOf")}
        relaxed |= union if "anyOf" not in relaxed else {"allOf": [*relaxed.get("allOf", ()), union]}
    return relaxed


def _make_placeholder(node: Any, reference: str) -> dict[str, Any]:
    """A placeholder for a schema that contains this place, and so is described already."""
    name = node.get("title") if isinstance(node, Mapping) else None
    name = name if isinstance(name, str) and name else reference.rsplit("/", 1)[-1].lstrip("#")
    types = {"type": node["type"]} if isinstance(node, Mapping) and isinstance(node.get("type"), str | list) else {}
    text = f"Another {name}, as it is described above." if name else "As it is described at the top."
    return {**types, "description": text}
