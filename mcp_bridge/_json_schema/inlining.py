"""Inlines references: the target of each reference takes its place.

Some clients reject references, and others do not show their targets to the model. A recursive schema, such as that of a
tree, has no finite form without references. The two functions treat it differently:

- `inline_references` puts a placeholder with only the type where the schema would begin again. The result accepts more
  than the original. Around a placeholder, keywords such as `not` and `if` would now reject more, so they are removed.
  The dialects use this function.
- `inline_definitions` keeps the references to such a schema, and its definition. The result accepts the same values.
  Schemas from signatures use this function.
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
"""The maximum number of subschemas of an inlined schema, because a model reads all of them."""
MAX_CHARACTERS = 1_000_000
"""The maximum number of characters of a schema that a dialect inlines."""
MAX_CHARACTERS_BY_DEFAULT = 50_000
"""The maximum number of characters of a schema that is inlined without a dialect: about 12,000 tokens for a model."""
_MAX_SIZE = SizeLimits(size=MAX_CHARACTERS, nodes=MAX_CHARACTERS, depth=100)
"""The maximum size of the result. References multiply levels too, and JSON parsers reject deep nesting."""
_ADDRESSES = frozenset({"$anchor", "$dynamicAnchor", "$recursiveAnchor", *DEFINITIONS})
_REVERSING = frozenset({"not", "if", "then", "else", "maxContains", "unevaluatedItems", "unevaluatedProperties"})
"""Keywords that reject more when the schemas in them, or beside them, accept more."""
_MAX_LOOPS = 100
"""The maximum number of recursive definitions."""
_PLAIN_NAME = re.compile(r"[\w.-]+")
"""The name of a definition without characters that a reference escapes."""
_OLD_DRAFTS = ("draft-04", "draft-06", "draft-07")
"""Drafts that ignore the keywords beside a reference."""


def inline_references(schema: dict[str, Any], *, label: str = "a schema") -> dict[str, Any]:
    """Return a schema without references. It is the same object if it has none, or if they cannot be inlined.

    Both schemas accept the same values, except that the result accepts more where the original is recursive. `label`
    names the schema in the log.
    """
    if not has_any_keyword(schema, REFERRING):
        return schema
    try:
        return _Inliner(schema, MAX_CHARACTERS).inline_root()
    except CannotRewrite as reason:
        logger.warning("cannot inline the references of %s: %s", label, reason)
        return schema


def inline_definitions(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with references only to recursive definitions.

    It is the same object if it has none, if they cannot be inlined, or if the result would be too large.
    """
    if not has_any_keyword(schema, REFERRING):
        return schema
    loops: set[int] = set()
    # A definition turns out to be recursive only while it is being inlined, so each recursive one costs an attempt.
    for _ in range(_MAX_LOOPS):
        try:
            return _Inliner(schema, MAX_CHARACTERS_BY_DEFAULT, loops).inline_root()
        except _LoopFound as error:
            loops.add(error.schema_id)
        except CannotRewrite:
            break
    return schema


class _LoopFound(Exception):
    """A definition is recursive. `schema_id` is the identity of its schema."""

    def __init__(self, schema_id: int) -> None:
        super().__init__(schema_id)
        self.schema_id = schema_id


class _Inliner:
    """Inlines the references of `root`, except those to the schemas in `loops`.

    `loops` has the identities of recursive schemas. Any other recursive schema raises _LoopFound. If `loops` is None,
    recursive schemas end with placeholders instead.
    """

    def __init__(self, root: Mapping[str, Any], max_characters: int, loops: Set[int] | None = None) -> None:
        self._root = root
        draft = root.get("$schema")
        self._is_old_draft = isinstance(draft, str) and any(name in draft for name in _OLD_DRAFTS)
        self._parts = Budget(MAX_PARTS, f"it would come to more than {MAX_PARTS} parts")
        self._characters = Budget(max_characters, f"it would come to more than {max_characters} characters")
        self._loops = loops
        self._loop_references: set[str] = set()
        self._placeholders = 0
        self._open_schemas = {id(root)}

    def inline_root(self) -> dict[str, Any]:
        """Return the whole schema, with the definitions of `loops`. Raises CannotRewrite and _LoopFound."""
        schema: dict[str, Any] = self._inline(self._root, 0)
        # Inlining a definition can add further references.
        inlined_references: set[str] = set()
        while inlined_references != self._loop_references:
            for reference in sorted(self._loop_references - inlined_references):
                section, _, name = reference.removeprefix("#/").partition("/")
                if section not in DEFINITIONS or not _PLAIN_NAME.fullmatch(name):
                    raise CannotRewrite(f"{reference!r} leads back to itself, and is no definition at the root")
                schema.setdefault(section, {})[name] = self._inline_target(reference, 0)
                inlined_references.add(reference)
        excess = _MAX_SIZE.describe_excess(schema)
        if excess:
            raise CannotRewrite(f"it would be {excess}")
        return schema

    def _inline(self, node: Any, depth: int) -> Any:
        """Return a part of the schema without references."""
        if not isinstance(node, Mapping):
            return node
        self._parts.spend()
        if depth > 2 * MAX_DEPTH:
            raise CannotRewrite(f"it is deeper than {2 * MAX_DEPTH} levels")
        is_root = node is self._root
        if "$id" in node and not is_root:
            raise CannotRewrite(f"a part of it has the address {node['$id']!r}, which references are relative to")
        removed_keywords = REFERRING | _ADDRESSES
        if not is_root:
            removed_keywords |= {"$schema"}
        keywords = {keyword: value for keyword, value in node.items() if keyword not in removed_keywords}
        self._characters.spend(len(json.dumps(map_subschemas(keywords, lambda _: 0))))
        placeholders = self._placeholders
        copy = map_subschemas(keywords, lambda subschema: self._inline(subschema, depth + 1))
        if isinstance(copy.get("discriminator"), Mapping):
            # The mapping of a discriminator (OpenAPI) has references. It is an annotation, so it can be left out.
            copy["discriminator"] = {key: value for key, value in copy["discriminator"].items() if key != "mapping"}
        for keyword in sorted(REFERRING & node.keys()):
            reference = node[keyword]
            target = resolve_pointer(reference, self._root) if isinstance(reference, str) else None
            if target is None:
                raise CannotRewrite(f"{reference!r} is no JSON pointer into it, or does not resolve")
            if self._loops is not None and id(target) in self._loops:
                copy[keyword] = reference
                self._loop_references.add(reference)
            else:
                copy = self._merge_target(self._inline_target(reference, depth), copy)
        if self._placeholders > placeholders:
            # A schema inside accepts more now, so these keywords would reject more.
            copy = relax_one_of({keyword: value for keyword, value in copy.items() if keyword not in _REVERSING})
        return copy

    def _inline_target(self, reference: str, depth: int) -> Any:
        """Return the inlined target of a reference, or a placeholder for a recursive one."""
        target = resolve_pointer(reference, self._root)
        if id(target) in self._open_schemas:
            if self._loops is not None:
                raise _LoopFound(id(target))
            self._placeholders += 1
            return _make_placeholder(target, reference)
        self._open_schemas.add(id(target))
        try:
            return self._inline(target, depth + 1)
        finally:
            self._open_schemas.discard(id(target))

    def _merge_target(self, target: Any, neighbours: dict[str, Any]) -> dict[str, Any]:
        """Combine the target of a reference with the keywords beside the reference."""
        if self._is_old_draft:
            neighbours = select_notes(neighbours)
        if isinstance(target, bool):
            target = {} if target else {"not": {}}
        schema = merge_schemas(neighbours, target)
        if schema is None:
            schema = {**select_constraints(neighbours), **select_notes(neighbours)}
            schema["allOf"] = [*neighbours.get("allOf", ()), target]
        return schema


def _make_placeholder(target: Any, reference: str) -> dict[str, Any]:
    """Return a placeholder for a schema around this place. Its description refers to that schema."""
    placeholder: dict[str, Any] = {}
    name = reference.rsplit("/", 1)[-1].lstrip("#")
    if isinstance(target, Mapping):
        if isinstance(target.get("type"), str | list):
            placeholder["type"] = target["type"]
        if isinstance(target.get("title"), str) and target["title"]:
            name = target["title"]
    text = f"Another {name}, as it is described above." if name else "As it is described at the top."
    return {**placeholder, "description": text}
