"""Repairs a schema that no validator accepts, and reports what was removed.

Schemas of third parties have unknown type names, references that lead nowhere, other dialects, and patterns with
look-around. Such a tool is still listed: one keyword of one subschema, the smallest part that cannot be checked, is
removed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp_bridge.schema.keywords import LISTS_OF_SCHEMAS, MAPS_OF_SCHEMAS, MAX_DEPTH, MAX_SCHEMAS, SCHEMAS

_TYPES = frozenset({"string", "boolean", "integer", "number", "object", "array", "null"})

MAX_TRIALS = 100
"""How often the whole schema is compiled to find a wrong reference. Further references are removed without a trial."""

IsValid = Callable[[Mapping[str, Any]], bool]


def repair_schema(schema: Mapping[str, Any], is_valid: IsValid) -> tuple[dict[str, Any], list[str]]:
    """A copy of a schema that is valid, and the paths of the keywords that were removed. Never raises."""
    repair = _Repair(is_valid)
    repaired = repair.copy(schema, "#", 0)
    if not is_valid(repaired):
        repair.remove_references(repaired)
    return repaired, repair.removed


@dataclass
class _Repair:
    is_valid: IsValid
    removed: list[str] = field(default_factory=list)
    keywords_left: int = MAX_SCHEMAS  # ends the walk in a schema that contains itself

    def copy(self, schema: Mapping[str, Any], path: str, depth: int) -> dict[str, Any]:
        """A copy without the keywords that are invalid on their own."""
        copy: dict[str, Any] = {}
        for keyword, value in schema.items():
            place = f"{path}/{keyword}"
            self.keywords_left -= 1
            if not isinstance(keyword, str) or depth > MAX_DEPTH or self.keywords_left < 0:
                self.removed.append(place)
                continue
            repaired = self._copy_value(keyword, value, place, depth)
            if keyword == "$ref" or (
                repaired is not None and self.is_valid(_make_single_keyword_schema(keyword, repaired))
            ):
                copy[keyword] = repaired
            else:
                self.removed.append(place)
        return copy

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
        """Remove references, which only the whole schema can resolve, until the whole schema is valid."""

        trials = MAX_TRIALS

        def visit(node: Any, at: str) -> None:
            nonlocal trials
            if isinstance(node, dict):
                for keyword in ("$ref", "$dynamicRef", "$schema", "$id"):
                    if keyword not in node:
                        continue
                    trials -= 1
                    if trials < 0 or not self.is_valid(schema):
                        del node[keyword]
                        self.removed.append(f"{at}/{keyword}")
                for name, value in list(node.items()):
                    visit(value, f"{at}/{name}")
            elif isinstance(node, list):
                for index, value in enumerate(node):
                    visit(value, f"{at}/{index}")

        visit(schema, "#")


def _make_single_keyword_schema(keyword: str, value: Any) -> dict[str, Any]:
    """The keyword as a schema of its own, without its subschemas, which have been checked already."""
    if keyword in MAPS_OF_SCHEMAS:
        return {keyword: dict.fromkeys(value, True)}
    if keyword in LISTS_OF_SCHEMAS:
        return {keyword: [True] * len(value)}
    return {keyword: True if keyword in SCHEMAS else value}


def _select_known_types(value: Any) -> list[str] | None:
    """Like the tool_use API, ignores unknown type names beside known ones."""
    names = value if isinstance(value, list | tuple) else [value]
    known = [name for name in names if isinstance(name, str) and name in _TYPES]
    return list(dict.fromkeys(known)) or None
