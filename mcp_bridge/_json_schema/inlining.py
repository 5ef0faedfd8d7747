"""Schemas without references: what a reference leads to replaces it.

A schema that leads back to itself keeps its references, or ends where it would begin again, with a schema that only has
its type. Some clients reject references, and others do not show the model what they lead to.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Set
from typing import Any

from mcp_bridge._json_schema.merging import (
    Budget,
    CannotRewrite,
    merge_schemas,
    relax_one_of,
    select_constraints,
    select_notes,
)
from mcp_bridge._json_schema.references import REFERRING, resolve_pointer
from mcp_bridge._json_schema.size_limits import SizeLimits
from mcp_bridge._json_schema.walking import DEFINITIONS, MAX_DEPTH, has_any_keyword, map_subschemas

logger = logging.getLogger("mcp_bridge.dialects")

MAX_PARTS = 2_000
"""The maximum number of subschemas of an inlined schema: a model reads all of them."""
MAX_CHARACTERS = 1_000_000
MAX_CHARACTERS_BY_DEFAULT = 50_000
"""The maximum size of a schema whose definitions are inlined without a setting, about 12,000 tokens for a model."""
_MAX_SIZE = SizeLimits(size=MAX_CHARACTERS, nodes=MAX_CHARACTERS, depth=100)
"""References multiply levels too, and JSON parsers reject deep nesting."""
_ADDRESSES = frozenset({"$anchor", "$dynamicAnchor", "$recursiveAnchor", *DEFINITIONS})
_CONTRARY = frozenset({"not", "if", "then", "else", "maxContains", "unevaluatedItems", "unevaluatedProperties"})
_MAX_LOOPS = 100
"""The maximum number of definitions that lead back to themselves."""
_PLAIN_NAME = re.compile(r"[\w.-]+")
"""The name of a definition that is the same in a reference."""
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
        return _Inliner(schema, MAX_CHARACTERS).inline_root()
    except CannotRewrite as reason:
        logger.warning("cannot inline the references of %s: %s", label, reason)
        return schema


def inline_definitions(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without references, except those to definitions that lead back to themselves.

    The same object if it has none, they cannot be inlined, or it would be too large. Both accept the same values.
    """
    if not has_any_keyword(schema, REFERRING):
        return schema
    loops: set[int] = set()
    # A definition turns out to lead back to itself while it is being inlined, so each one costs a new attempt.
    for _ in range(_MAX_LOOPS):
        try:
            return _Inliner(schema, MAX_CHARACTERS_BY_DEFAULT, loops).inline_root()
        except _LoopFound as error:
            loops.add(error.node)
        except CannotRewrite:
            break
    return schema


class _LoopFound(Exception):
    """A definition leads back to itself. `node` is the identity of its schema."""

    def __init__(self, node: int) -> None:
        super().__init__(node)
        self.node = node


class _Inliner:
    """Inlines the references of `root`. References to the schemas `kept`, by identity, stay; see `_LoopFound`.

    Without `kept`, a schema that leads back to itself is ended.
    """

    def __init__(self, root: Mapping[str, Any], characters: int, kept: Set[int] | None = None) -> None:
        self._root = root
        draft = root.get("$schema")
        self._is_old_draft = isinstance(draft, str) and any(name in draft for name in _OLD_DRAFTS)
        self._parts = Budget(MAX_PARTS, f"it would come to more than {MAX_PARTS} parts")
        self._characters = Budget(characters, f"it would come to more than {characters} characters")
        self._kept = kept
        self._kept_references: set[str] = set()
        self._loops = 0  # how often a schema that leads back to itself was ended
        self._open = {id(root)}

    def inline_root(self) -> dict[str, Any]:
        """The whole schema, with the definitions that are still referred to. Raises CannotRewrite and _LoopFound."""
        inlined: dict[str, Any] = self._inline(self._root, 0)
        written: set[str] = set()
        while waiting := self._kept_references - written:
            for reference in sorted(waiting):
                section, _, name = reference.removeprefix("#/").partition("/")
                if section not in DEFINITIONS or not _PLAIN_NAME.fullmatch(name):
                    raise CannotRewrite(f"{reference!r} leads back to itself, and is no definition at the root")
                inlined.setdefault(section, {})[name] = self._inline_target(reference, 0)
            written |= waiting
        if excess := _MAX_SIZE.describe_excess(inlined):
            raise CannotRewrite(f"it would be {excess}")
        return inlined

    def _inline(self, node: Any, depth: int) -> Any:
        """A part of the schema without references."""
        if not isinstance(node, Mapping):
            return node
        self._parts.spend()
        if depth > 2 * MAX_DEPTH:
            raise CannotRewrite(f"it is deeper than {2 * MAX_DEPTH} levels")
        is_root = node is self._root
        if "$id" in node and not is_root:
            raise CannotRewrite(f"a part of it has the address {node['$id']!r}, which references are relative to")
        removed = _ADDRESSES if is_root else _ADDRESSES | {"$schema"}
        own = {word: value for word, value in node.items() if word not in REFERRING and word not in removed}
        self._characters.spend(len(json.dumps(map_subschemas(own, lambda _: 0))))
        loops = self._loops
        copy = map_subschemas(own, lambda part: self._inline(part, depth + 1))
        if isinstance(copy.get("discriminator"), Mapping):  # the mapping has references, which an annotation may omit
            copy["discriminator"] = {key: value for key, value in copy["discriminator"].items() if key != "mapping"}
        for keyword in sorted(REFERRING & node.keys()):
            reference = node[keyword]
            target = resolve_pointer(reference, self._root) if isinstance(reference, str) else None
            if target is None:
                raise CannotRewrite(f"{reference!r} is no JSON pointer into it, or does not resolve")
            if self._kept is not None and id(target) in self._kept:
                copy[keyword] = reference
                self._kept_references.add(reference)
            else:
                copy = self._merge_target(self._inline_target(reference, depth), copy)
        return copy if self._loops == loops else _remove_contrary_keywords(copy)

    def _inline_target(self, reference: str, depth: int) -> Any:
        target = resolve_pointer(reference, self._root)
        if id(target) in self._open:
            if self._kept is not None:
                raise _LoopFound(id(target))
            self._loops += 1
            return _make_placeholder(target, reference)
        self._open.add(id(target))
        try:
            return self._inline(target, depth + 1)
        finally:
            self._open.discard(id(target))

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
    return relax_one_of({word: value for word, value in schema.items() if word not in _CONTRARY})


def _make_placeholder(node: Any, reference: str) -> dict[str, Any]:
    """A placeholder for a schema that contains this place, and so is described already."""
    name = node.get("title") if isinstance(node, Mapping) else None
    name = name if isinstance(name, str) and name else reference.rsplit("/", 1)[-1].lstrip("#")
    types = {"type": node["type"]} if isinstance(node, Mapping) and isinstance(node.get("type"), str | list) else {}
    text = f"Another {name}, as it is described above." if name else "As it is described at the top."
    return {**types, "description": text}
