"""Removes fixed and hidden arguments from a schema, because clients do not send them.

The arguments are removed from `properties` and `required` at the top, and from those in its `allOf` and behind its
`$ref`. The new schema accepts what a client sends exactly if the original one accepts it together with the fixed
values. Any other keyword that concerns a removed argument is an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from mcp_bridge._json_schema.references import extend_path, resolve_pointer
from mcp_bridge._json_schema.validator import validate
from mcp_bridge._json_schema.walking import DEFINITIONS, get_list, get_mapping, list_references, select_texts

Schema = dict[str, Any]
_VALUES = ("properties", "patternProperties", "additionalProperties", "propertyNames")
"""The keywords that check each argument by its own."""
_NAMES = (
    "anyOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies",
)  # fmt: skip
"""The keywords that stay if they contain neither the name of a removed argument nor one of `_WHOLE`."""
_COUNTS = ("minProperties", "maxProperties")
"""The keywords that count arguments. Hidden arguments are not sent, so they count only fixed ones."""
_UNSUPPORTED = frozenset({"const", "enum", "$dynamicRef", "$recursiveRef"})
_WHOLE = (
    frozenset({"$ref", "patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames", *_COUNTS})
    | _UNSUPPORTED
)
"""The keywords that concern arguments without naming them."""
_MAX_PARTS = 1_000


class ArgumentRemoval:
    """Removes arguments from the schema `root` of a tool: `hidden` are never sent, `fixed` with every call."""

    def __init__(self, root: Mapping[str, Any], hidden: Set[str], fixed: Mapping[str, Any]) -> None:
        self._root = root
        self._hidden = hidden - fixed.keys()
        self._fixed = dict(fixed)
        self._removed = {*hidden, *fixed}
        self._targets: set[str] = set()
        self._parts = 0

    def change_schema(self) -> Schema:
        """Return the schema for the arguments of clients. Raises ValueError if it does not exist or cannot be found."""
        result = self._change(self._root, "$", frozenset())
        self._remove_targets(result)
        remaining = get_mapping(self._root, "properties").keys() - self._removed
        for reference in list_references(result):
            _, section, name, *_ = (*reference.split("/"), "", "")
            if (
                reference[:1] == "#"
                and section not in DEFINITIONS
                and not (section == "properties" and name in remaining)
            ):
                raise ValueError(f"the reference '{reference}' in its schema refers to what the override would change")
        return result

    def _change(self, schema: Any, path: str, ancestors: frozenset[str]) -> Schema:
        """Return a schema for all arguments without those to remove."""
        if not isinstance(schema, Mapping):
            if schema is False:
                raise ValueError(f"{path}: nothing is allowed")
            return {}
        self._parts += 1
        if self._parts > _MAX_PARTS:
            raise ValueError("its schema has too many parts to override its arguments")
        self._check_keywords(schema, path)
        self._check_values(schema, path)
        result = {keyword: value for keyword, value in schema.items() if keyword not in ("$ref", "default", "examples")}
        if "properties" in schema:
            properties = get_mapping(schema, "properties")
            result["properties"] = {name: part for name, part in properties.items() if name not in self._removed}
        required = select_texts(schema.get("required"))
        if missing := sorted(self._hidden.intersection(required)):
            raise ValueError(_join(path, f"the argument '{missing[0]}' is required, so it needs a value"))
        result.pop("required", None)
        if names := [name for name in required if name not in self._removed]:
            result["required"] = names
        parts = [
            self._change(part, extend_path(path, "allOf", index), ancestors)
            for index, part in enumerate(get_list(schema, "allOf"))
        ]
        if "$ref" in schema:
            target = self._follow_reference(schema["$ref"], path, ancestors)
            if result.keys() <= DEFINITIONS:
                result = {**target, **result}
            else:
                parts.append(target)
        result.pop("allOf", None)
        if parts := [part for part in parts if part]:
            result["allOf"] = parts
        return result

    def _follow_reference(self, reference: Any, path: str, ancestors: frozenset[str]) -> Schema:
        target = resolve_pointer(reference, self._root) if isinstance(reference, str) else None
        if target is None or reference in ancestors or (isinstance(target, Mapping) and "$id" in target):
            raise ValueError(_join(path, f"the reference {reference!r} cannot be followed to override arguments"))
        self._targets.add(reference)
        return self._change(target, reference, ancestors | {reference})

    def _check_keywords(self, schema: Mapping[str, Any], path: str) -> None:
        """Raise ValueError for a keyword that may concern removed arguments by other things than their values."""
        keywords = _UNSUPPORTED & schema.keys()
        keywords |= {keyword for keyword in _NAMES if keyword in schema and self._is_concerned(schema[keyword])}
        if self._fixed:
            keywords |= schema.keys() & set(_COUNTS)
        if keywords:
            raise ValueError(f"arguments cannot be hidden or fixed beside '{min(keywords)}', at {path}")

    def _is_concerned(self, value: Any) -> bool:
        stack = [value]
        while stack:
            node = stack.pop()
            if isinstance(node, Mapping):
                stack += [*node, *node.values()]
            elif isinstance(node, list):
                stack += node
            elif isinstance(node, str) and (node in self._removed or node in _WHOLE):
                return True
        return False

    def _check_values(self, schema: Mapping[str, Any], path: str) -> None:
        """Raise ValueError if the fixed values do not match the keywords that check each argument."""
        value_keywords = {keyword: schema[keyword] for keyword in _VALUES if keyword in schema}
        if not value_keywords or not self._fixed:
            return
        definitions = {keyword: self._root[keyword] for keyword in ("$schema", *DEFINITIONS) if keyword in self._root}
        # References can lead to these schemas.
        arguments = {"properties": get_mapping(self._root, "properties")}
        keywords = value_keywords if path == "$" else {**arguments, "allOf": [value_keywords]}
        if errors := validate(self._fixed, {**definitions, **keywords}).errors:
            raise ValueError(_join(path, f"the values of its arguments do not match its schema: {'; '.join(errors)}"))

    def _remove_targets(self, schema: Schema) -> None:
        """Remove the target definitions of the top, because they show removed arguments."""
        definitions = {keyword: dict(get_mapping(schema, keyword)) for keyword in DEFINITIONS & schema.keys()}
        for target in self._targets:
            _, keyword, name, *inner_path = (*target.split("/"), "", "")
            if keyword in definitions and not any(inner_path):
                definitions[keyword].pop(name, None)
        smaller = {**{key: value for key, value in schema.items() if key not in DEFINITIONS}, **definitions}
        if self._targets.isdisjoint(list_references(smaller)):
            for keyword in definitions:
                del schema[keyword]
            schema.update({keyword: parts for keyword, parts in definitions.items() if parts})


def _join(path: str, problem: str) -> str:
    return problem if path == "$" else f"{path}: {problem}"
