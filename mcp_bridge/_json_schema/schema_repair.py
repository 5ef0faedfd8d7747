"""Repairs a schema that no validator accepts, and reports the removed keywords.

Schemas of third parties have unknown type names, references without a target, other dialects, and patterns with
look-around. Such a tool is still listed. A repair works in three steps:

1. Each keyword of each subschema is tested alone, as the only keyword of a schema, and removed if that is invalid.
2. If a removal makes a subschema accept more, some keywords around it would now reject more, so they are removed too:
   `not`, the condition of an `if`, or `additionalProperties` if a pattern of `patternProperties` was removed.
3. If the result is still invalid, references are the reason, and all of them are removed.

A repaired schema accepts everything that the original accepts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp_bridge._json_schema.merging import relax_one_of
from mcp_bridge._json_schema.references import extend_pointer, resolve_pointer
from mcp_bridge._json_schema.type_sets import TYPES
from mcp_bridge._json_schema.walking import (
    LISTS_OF_SCHEMAS,
    MAPS_OF_SCHEMAS,
    MAX_DEPTH,
    MAX_SCHEMAS,
    SCHEMAS,
    map_subschemas,
    select_texts,
)

_MAX_LEVELS, _MAX_VALUES = 24, 100
"""The maximum number of levels of a reduced schema, and of values of its `enum` keywords."""
_REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef", "$schema", "$id"})
"""Keywords that cannot be tested alone, because their meaning depends on the whole schema."""
_OPPOSITES = {"not": ("not",), "if": ("if", "then", "else"), "contains": ("maxContains",)}
"""For a keyword whose schema accepts more after a repair, the keywords that reject more or other values then."""
_NAMING_KEYWORDS = frozenset({"properties", "patternProperties", "prefixItems", "items"})
"""Keywords that name some properties or items."""
_REMAINDERS = ("additionalProperties", "unevaluatedProperties", "items", "additionalItems", "unevaluatedItems")
"""Keywords that apply to all properties or items that their neighbours do not name."""

IsValid = Callable[[Mapping[str, Any]], bool]
"""Whether a validator accepts a schema."""


def repair_schema(schema: Mapping[str, Any], is_valid: IsValid) -> tuple[dict[str, Any], list[str]]:
    """Return a valid copy of a schema, and JSON pointers to the removed keywords. Never raises."""
    repair = _Repair(schema, is_valid)
    copy = repair.copy(schema, "#", 0)
    if not is_valid(copy):
        repair.remove_references(copy, "#")
    return copy, repair.removed_keywords


def reduce_schema(schema: Mapping[str, Any], is_acceptable: IsValid) -> dict[str, Any]:
    """Return an acceptable smaller schema: without long enums and deep levels, or else an outline, or only the type."""
    for candidate in (_shorten(schema, _MAX_LEVELS), _outline(schema)):
        if is_acceptable(candidate):
            return candidate
    return _outline({"type": schema.get("type")})


def _shorten(schema: Any, levels: int) -> Any:
    """Return a schema without long enums and without further levels than these."""
    if not isinstance(schema, Mapping):
        return schema
    if not levels:
        return {}
    copy = dict(schema)
    relaxed = {"not", "if", "oneOf"} & schema.keys()
    values = schema.get("enum")
    if isinstance(values, list) and len(values) > _MAX_VALUES:
        relaxed.add("enum")
        del copy["enum"]
    return map_subschemas(_loosen(copy, relaxed), lambda subschema: _shorten(subschema, levels - 1))


def _outline(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return only the type, and the names, types and descriptions of the properties."""
    outline = {keyword: schema[keyword] for keyword in ("type", "description") if isinstance(schema.get(keyword), str)}
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        outline["properties"] = {}
        outline["required"] = schema.get("required", [])
        for name, subschema in properties.items():
            inner = dict(subschema) if isinstance(subschema, Mapping) else {}
            inner.pop("properties", None)
            outline["properties"][name] = _outline(inner)
    return outline


@dataclass
class _Repair:
    """The repair of one schema, `root`.

    Attributes:
        removed_keywords: JSON pointers to the removed keywords.
        keywords_left: How many keywords may still be visited. This ends the walk in a schema that contains itself.
    """

    root: Mapping[str, Any]
    is_valid: IsValid
    removed_keywords: list[str] = field(default_factory=list)
    keywords_left: int = MAX_SCHEMAS

    def copy(self, schema: Mapping[str, Any], pointer: str, depth: int) -> dict[str, Any]:
        """Return a copy without the keywords that are invalid alone."""
        copy: dict[str, Any] = {}
        relaxed: set[str] = set()
        for keyword, value in schema.items():
            place = extend_pointer(pointer, keyword)
            self.keywords_left -= 1
            if not isinstance(keyword, str) or depth > MAX_DEPTH or self.keywords_left < 0:
                self.removed_keywords.append(place)
                continue
            count = len(self.removed_keywords)
            new_value = self._copy_value(keyword, value, place, depth)
            if self._is_usable(keyword, new_value):
                copy[keyword] = new_value
            else:
                self.removed_keywords.append(place)
            if len(self.removed_keywords) > count:
                relaxed.add(keyword)
        return _loosen(copy, relaxed)

    def _copy_value(self, keyword: str, value: Any, pointer: str, depth: int) -> Any:
        """Return the repaired value of a keyword, or None if nothing of it is valid."""

        def copy_subschema(subschema: Any, pointer: str) -> Any:
            if isinstance(subschema, Mapping):
                return self.copy(subschema, pointer, depth + 1)
            return subschema if isinstance(subschema, bool) else True

        if keyword == "type":
            # Like the tool_use API, this ignores unknown names in a list with known ones.
            if isinstance(value, str):
                return value if value in TYPES else None
            return [name for name in dict.fromkeys(select_texts(value)) if name in TYPES] or None
        if keyword in MAPS_OF_SCHEMAS:
            if not isinstance(value, Mapping):
                return None
            items = [(name, subschema) for name, subschema in value.items() if isinstance(name, str)]
            return {name: copy_subschema(subschema, extend_pointer(pointer, name)) for name, subschema in items}
        if keyword in LISTS_OF_SCHEMAS:
            if not isinstance(value, list | tuple):
                return None
            return [copy_subschema(subschema, f"{pointer}/{index}") for index, subschema in enumerate(value)]
        if keyword in SCHEMAS:
            return copy_subschema(value, pointer)
        return value

    def _is_usable(self, keyword: str, value: Any) -> bool:
        """Whether a keyword with a repaired value is valid."""
        if keyword == "$ref":
            is_local = isinstance(value, str) and value.startswith("#")
            return is_local and (not value.startswith("#/") or resolve_pointer(value, self.root) is not None)
        if value is None:
            return False
        # The subschemas of the value are repaired already, so `True` replaces them in the test.
        if keyword in MAPS_OF_SCHEMAS:
            value = dict.fromkeys(value, True)
        elif keyword in LISTS_OF_SCHEMAS:
            value = [True] * len(value)
        elif keyword in SCHEMAS:
            value = True
        return self.is_valid({keyword: value})

    def remove_references(self, node: Any, pointer: str) -> None:
        """Remove all references in place, and the keywords that change their meaning."""
        if isinstance(node, dict):
            for keyword in _REFERENCES & node.keys():
                del node[keyword]
                self.removed_keywords.append(f"{pointer}/{keyword}")
            for name, value in node.items():
                self.remove_references(value, extend_pointer(pointer, name))
        elif isinstance(node, list):
            for index, value in enumerate(node):
                self.remove_references(value, f"{pointer}/{index}")


def _loosen(schema: dict[str, Any], relaxed: set[str]) -> dict[str, Any]:
    """Return a schema without keywords that reject more because the `relaxed` keywords accept more or are gone."""
    removed_keywords = set[str]()
    for keyword, opposites in _OPPOSITES.items():
        if keyword in relaxed:
            removed_keywords.update(opposites)
    missing_keywords = relaxed - schema.keys()
    if not _NAMING_KEYWORDS.isdisjoint(missing_keywords):
        removed_keywords.update(_REMAINDERS)
    if "oneOf" in relaxed:
        schema = relax_one_of(schema)
    return {keyword: value for keyword, value in schema.items() if keyword not in removed_keywords}
