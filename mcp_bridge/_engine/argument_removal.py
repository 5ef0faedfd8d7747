"""Removes the fixed and hidden arguments of an override from the schema of a tool, because clients do not send them.

With the fixed argument `b`, for example, `{"properties": {"a": {}, "b": {}}, "required": ["a", "b"]}` becomes
`{"properties": {"a": {}}, "required": ["a"]}`.

The arguments are removed from `properties` and `required` of the schema, of the schemas in its `allOf`, and of the
target of its `$ref`. The new schema accepts the arguments of a client exactly if the original one accepts them together
with the fixed values. Where this cannot be guaranteed, because another keyword concerns a removed argument, the
override is rejected.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from mcp_bridge._json_schema.references import extend_path, resolve_pointer
from mcp_bridge._json_schema.validator import validate
from mcp_bridge._json_schema.walking import DEFINITIONS, get_list, get_mapping, list_references, select_texts

Schema = dict[str, Any]
_PER_ARGUMENT_KEYWORDS = ("properties", "patternProperties", "additionalProperties", "propertyNames")
"""The keywords that check each argument independently of the others."""
_CONDITIONAL_KEYWORDS = (
    "anyOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies",
)  # fmt: skip
"""The keywords that stay if they contain neither the name of a removed argument nor one of `_INDIRECT_KEYWORDS`."""
_COUNTING_KEYWORDS = ("minProperties", "maxProperties")
"""The keywords that count arguments. Fixed arguments would change the count; hidden ones are never sent."""
_UNSUPPORTED_KEYWORDS = frozenset({"const", "enum", "$dynamicRef", "$recursiveRef"})
"""The keywords that prevent every removal: they compare all arguments at once, or refer to schemas dynamically."""
_INDIRECT_KEYWORDS = (
    frozenset({"$ref", "patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames"})
    | frozenset(_COUNTING_KEYWORDS)
    | _UNSUPPORTED_KEYWORDS
)
"""The keywords that can concern an argument without containing its name."""
_MAX_PARTS = 1_000
"""The maximum number of schemas that a removal visits. It visits a definition again for each `$ref` to it."""


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
        """Return the schema for the arguments of clients.

        Raises ValueError if there is no such schema, or if a keyword prevents finding it.
        """
        result = self._change(self._root, "$", frozenset())
        self._remove_targets(result)
        remaining_names = get_mapping(self._root, "properties").keys() - self._removed
        for reference in list_references(result):
            if not reference.startswith("#"):
                continue
            # The removal keeps definitions and remaining properties at their places, and may move everything else.
            segments = reference.split("/")
            is_definition = len(segments) > 1 and segments[1] in DEFINITIONS
            is_argument = len(segments) > 2 and segments[1] == "properties" and segments[2] in remaining_names
            if not is_definition and not is_argument:
                raise ValueError(f"the reference '{reference}' in its schema refers to what the override would change")
        return result

    def _change(self, schema: Any, path: str, ancestors: frozenset[str]) -> Schema:
        """Return a copy of a schema of all arguments, without the removed ones.

        `ancestors` are the references on the way to this schema.
        """
        if not isinstance(schema, Mapping):
            if schema is False:
                raise ValueError(f"{path}: nothing is allowed")
            return {}
        self._parts += 1
        if self._parts > _MAX_PARTS:
            raise ValueError("its schema has too many parts to override its arguments")
        self._check_keywords(schema, path)
        self._check_values(schema, path)
        # `default` and `examples` are omitted, because they may show values of removed arguments. The target of `$ref`
        # is added below.
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
            # A schema that consists of a reference is replaced by its target.
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
        """Raise ValueError for keywords that may concern removed arguments, except those of `_check_values`."""
        keywords = _UNSUPPORTED_KEYWORDS & schema.keys()
        for keyword in _CONDITIONAL_KEYWORDS:
            if keyword in schema and self._concerns_removed(schema[keyword]):
                keywords |= {keyword}
        if self._fixed:
            keywords |= schema.keys() & set(_COUNTING_KEYWORDS)
        if keywords:
            raise ValueError(f"arguments cannot be hidden or fixed beside '{min(keywords)}', at {path}")

    def _concerns_removed(self, value: Any) -> bool:
        """Whether a value contains a name of a removed argument, or a keyword that concerns arguments without names."""
        stack = [value]
        while stack:
            node = stack.pop()
            if isinstance(node, Mapping):
                stack += [*node, *node.values()]
            elif isinstance(node, list):
                stack += node
            elif isinstance(node, str) and (node in self._removed or node in _INDIRECT_KEYWORDS):
                return True
        return False

    def _check_values(self, schema: Mapping[str, Any], path: str) -> None:
        """Raise ValueError if the fixed values do not match the keywords that check each argument."""
        value_keywords = {keyword: schema[keyword] for keyword in _PER_ARGUMENT_KEYWORDS if keyword in schema}
        if not value_keywords or not self._fixed:
            return
        definitions = {keyword: self._root[keyword] for keyword in ("$schema", *DEFINITIONS) if keyword in self._root}
        # References in the keywords can lead to definitions and to the arguments of the root.
        arguments = {"properties": get_mapping(self._root, "properties")}
        keywords = value_keywords if path == "$" else {**arguments, "allOf": [value_keywords]}
        if errors := validate(self._fixed, {**definitions, **keywords}).errors:
            raise ValueError(_join(path, f"the values of its arguments do not match its schema: {'; '.join(errors)}"))

    def _remove_targets(self, schema: Schema) -> None:
        """Remove the definitions whose content is now in the schema itself, because they show removed arguments.

        All definitions stay if another reference needs one of them.
        """
        definitions = {keyword: dict(get_mapping(schema, keyword)) for keyword in DEFINITIONS & schema.keys()}
        for target in self._targets:
            segments = target.split("/")
            if len(segments) == 3 and segments[1] in definitions:
                definitions[segments[1]].pop(segments[2], None)
        smaller = {key: value for key, value in schema.items() if key not in DEFINITIONS} | definitions
        if self._targets.isdisjoint(list_references(smaller)):
            for keyword, remaining in definitions.items():
                if remaining:
                    schema[keyword] = remaining
                else:
                    del schema[keyword]


def _join(path: str, problem: str) -> str:
    return problem if path == "$" else f"{path}: {problem}"
