"""Repairs a schema that no validator accepts, and reports what was removed.

Schemas of third parties have unknown type names, references that lead nowhere, other dialects, and patterns with
look-around. Such a tool is still listed: one keyword of one subschema, the smallest part that cannot be checked, is
removed. A repaired schema accepts everything that the original accepts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp_bridge._json_schema.merging import relax_one_of
from mcp_bridge._json_schema.references import resolve_pointer
from mcp_bridge._json_schema.type_sets import TYPES
from mcp_bridge._json_schema.walking import (
    LISTS_OF_SCHEMAS,
    MAPS_OF_SCHEMAS,
    MAX_DEPTH,
    MAX_SCHEMAS,
    SCHEMAS,
    map_subschemas,
)

_MAX_LEVELS, _MAX_VALUES = 24, 100
"""The levels of schemas, and the values of an `enum`, that a reduced schema keeps."""
_REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef", "$schema", "$id"})
"""Keywords that only the whole schema explains."""
_OPPOSITES = {"not": ("not",), "if": ("if", "then", "else"), "contains": ("maxContains",)}
"""By a keyword: those that reject more, or other values, when a schema in it accepts more."""
_MENTIONS = frozenset({"properties", "patternProperties", "prefixItems", "items"})
_REMAINDERS = ("additionalProperties", "unevaluatedProperties", "items", "additionalItems", "unevaluatedItems")
"""Keywords that apply to what their neighbours do not mention."""

IsValid = Callable[[Mapping[str, Any]], bool]


def repair_schema(schema: Mapping[str, Any], is_valid: IsValid) -> tuple[dict[str, Any], list[str]]:
    """A copy of a schema that is valid, and the paths of the keywords that were removed. Never raises."""
    repair = _Repair(schema, is_valid)
    repaired = repair.copy(schema, "#", 0)
    if not is_valid(repaired):
        repair.remove_references(repaired)
    return repaired, repair.removed


def reduce_schema(schema: Mapping[str, Any], is_acceptable: IsValid) -> dict[str, Any]:
    """Return a schema that is small enough: without long enums and deep levels, or only an outline."""
    for reduced in (_shorten(schema, _MAX_LEVELS), _outline(schema)):
        if is_acceptable(reduced):
            return reduced
    return _outline({"type": schema.get("type")})


def _shorten(schema: Any, levels: int) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    if not levels:
        return {}
    values = schema.get("enum")
    loosened = {"not", "if", "oneOf"} & schema.keys()
    if isinstance(values, list) and len(values) > _MAX_VALUES:
        loosened.add("enum")
    kept = {keyword: value for keyword, value in schema.items() if keyword != "enum" or keyword not in loosened}
    return map_subschemas(_loosen(kept, loosened), lambda inner: _shorten(inner, levels - 1))


def _outline(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the type, and the names, types and descriptions of the properties."""
    outline = {word: schema[word] for word in ("type", "description") if isinstance(schema.get(word), str)}
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return outline
    inner = {name: value if isinstance(value, Mapping) else {} for name, value in properties.items()}
    described = {name: _outline({**value, "properties": None}) for name, value in inner.items()}
    return {**outline, "properties": described, "required": schema.get("required", [])}


@dataclass
class _Repair:
    root: Mapping[str, Any]
    is_valid: IsValid
    removed: list[str] = field(default_factory=list)
    keywords_left: int = MAX_SCHEMAS  # ends the walk in a schema that contains itself

    def copy(self, schema: Mapping[str, Any], path: str, depth: int) -> dict[str, Any]:
        """A copy without the keywords that are invalid on their own."""
        copy: dict[str, Any] = {}
        loosened: set[str] = set()
        for keyword, value in schema.items():
            place = f"{path}/{keyword}"
            self.keywords_left -= 1
            if not isinstance(keyword, str) or depth > MAX_DEPTH or self.keywords_left < 0:
                self.removed.append(place)
                continue
            known = len(self.removed)
            repaired = self._copy_value(keyword, value, place, depth)
            if self._is_usable(keyword, repaired):
                copy[keyword] = repaired
            else:
                self.removed.append(place)
            if len(self.removed) > known:
                loosened.add(keyword)
        return _loosen(copy, loosened) if loosened else copy

    def _is_usable(self, keyword: str, value: Any) -> bool:
        if keyword == "$ref":
            is_pointer = isinstance(value, str) and value.startswith("#")
            return is_pointer and (not value.startswith("#/") or resolve_pointer(value, self.root) is not None)
        return value is not None and self.is_valid(_make_single_keyword_schema(keyword, value))

    def _copy_value(self, keyword: str, value: Any, place: str, depth: int) -> Any:
        """The repaired value of a keyword, or None if nothing of it can be kept."""

        def copy_inner(part: Any, at: str) -> Any:
            if isinstance(part, Mapping):
                return self.copy(part, at, depth + 1)
            return part if isinstance(part, bool) else True

        if keyword == "type":
            return _select_known_types(value)
        if keyword in MAPS_OF_SCHEMAS:
            if not isinstance(value, Mapping):
                return None
            return {name: copy_inner(part, f"{place}/{name}") for name, part in value.items() if isinstance(name, str)}
        if keyword in LISTS_OF_SCHEMAS:
            if not isinstance(value, list | tuple):
                return None
            return [copy_inner(part, f"{place}/{index}") for index, part in enumerate(value)]
        return copy_inner(value, place) if keyword in SCHEMAS else value

    def remove_references(self, schema: dict[str, Any]) -> None:
        """Remove all references, and the keywords that change what they mean."""

        def visit(node: Any, at: str) -> None:
            if isinstance(node, dict):
                for keyword in _REFERENCES & node.keys():
                    del node[keyword]
                    self.removed.append(f"{at}/{keyword}")
                for name, value in node.items():
                    visit(value, f"{at}/{name}")
            elif isinstance(node, list):
                for index, value in enumerate(node):
                    visit(value, f"{at}/{index}")

        visit(schema, "#")


def _loosen(schema: dict[str, Any], loosened: set[str]) -> dict[str, Any]:
    """Return a schema without what would reject more, now that these keywords accept more or are gone."""
    removed = {word for cause, words in _OPPOSITES.items() if cause in loosened for word in words}
    if not _MENTIONS.isdisjoint(loosened - schema.keys()):
        removed.update(_REMAINDERS)
    if "oneOf" in loosened:
        schema = relax_one_of(schema)
    return {keyword: value for keyword, value in schema.items() if keyword not in removed}


def _make_single_keyword_schema(keyword: str, value: Any) -> dict[str, Any]:
    """The keyword as a schema of its own, without its subschemas, which have been checked already."""
    if keyword in MAPS_OF_SCHEMAS:
        return {keyword: dict.fromkeys(value, True)}
    if keyword in LISTS_OF_SCHEMAS:
        return {keyword: [True] * len(value)}
    return {keyword: True if keyword in SCHEMAS else value}


def _select_known_types(value: Any) -> str | list[str] | None:
    """Like the tool_use API, ignores unknown type names beside known ones."""
    if isinstance(value, str):
        return value if value in TYPES else None
    names = value if isinstance(value, list | tuple) else ()
    known = [name for name in names if isinstance(name, str) and name in TYPES]
    return list(dict.fromkeys(known)) or None
