"""Converts schemas to the subset of JSON Schema for OpenAI's strict mode.

In this subset, every property is required, and objects accept only their named properties. Optional properties
therefore accept null instead. Nothing else of a schema is changed: what the subset does not allow is reported with its
JSON path, and never dropped silently.

For example, `{"properties": {"unit": {"type": "string", "default": "C"}}}` becomes `{"properties": {"unit": {"type":
["string", "null"], "description": "Default: \\"C\\"\\nnull: the default"}}, "required": ["unit"],
"additionalProperties": false}`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from mcp_bridge._json_schema.references import extend_path, resolve_pointer, resolve_schema
from mcp_bridge._json_schema.type_sets import TYPES, get_type, list_declared_types, list_types
from mcp_bridge._json_schema.walking import COMBINATORS, DEFINITIONS, get_list, get_mapping, list_values, select_texts

_SCALARS = frozenset({"string", "number", "integer", "boolean", "null"})
_LABELS = ("title", "description")
_NOTES = frozenset({"default", "examples", "example"})
"""Keywords for the model. They are moved into the description, because strict mode does not have them."""
_IGNORED = frozenset({"$comment", "deprecated", "readOnly", "writeOnly", "discriminator"})
_KEPT = frozenset(
    {
        "type", "enum", "const", "pattern", "format", "multipleOf", "maximum", "exclusiveMaximum", "minimum",
        "exclusiveMinimum", "minItems", "maxItems", *_LABELS,
    }
)  # fmt: skip
_CONVERTED = frozenset({"properties", "required", "additionalProperties", "items", "anyOf", "oneOf", "allOf", "$ref"})
_KNOWN = _KEPT | _CONVERTED | _NOTES | _IGNORED
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_COMPOSED = ("$ref", *COMBINATORS)
_NULL = {"type": "null"}
_MAX_COMPARED = 200
"""The maximum number of alternatives that are compared in pairs. Beyond it, `oneOf` is reported."""

# Limits of strict schemas (OpenAI, Structured Outputs, "Supported schemas")
MAX_PROPERTIES = 5_000
MAX_LEVELS = 10
MAX_CHARACTERS = 120_000
"""The characters of all names of properties and definitions, and of all texts in enums and constants."""
MAX_VALUES = 1_000
"""The values of all enums together."""
LONG_ENUM, MAX_ENUM_CHARACTERS = 250, 15_000
"""The characters of an enum with more values than LONG_ENUM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StrictSchema:
    """A schema in strict form. Each problem is a JSON path and a text. If there is one, strict mode cannot be used."""

    schema: dict[str, Any]
    problems: tuple[tuple[str, str], ...]


def to_strict(schema: Mapping[str, Any]) -> StrictSchema:
    """Return the strict form of a tool's input schema. Its root is an object."""
    converter = _Converter(root=schema)
    root = {keyword: value for keyword, value in schema.items() if keyword not in {*DEFINITIONS, "$id"}}
    strict = converter.convert(root, "$")
    for keyword in DEFINITIONS:
        definitions = get_mapping(schema, keyword)
        if definitions:
            strict[keyword] = {}
        for name, subschema in definitions.items():
            strict[keyword][name] = converter.convert(subschema, extend_path("$", keyword, name))
    if not converter.problems:
        converter.problems += [("$", text) for text in _check_limits(strict)]
    return StrictSchema(schema=strict, problems=tuple(converter.problems))


@dataclass(slots=True, kw_only=True)
class _Converter:
    """Converts one schema, and collects its problems in strict mode."""

    root: Mapping[str, Any]
    problems: list[tuple[str, str]] = field(default_factory=list)

    def convert(self, schema: Any, path: str) -> dict[str, Any]:
        if not isinstance(schema, Mapping):
            self._report(path, f"strict mode does not allow `{json.dumps(schema)}` as a schema")
            return {}
        for keyword in schema:
            if keyword not in _KNOWN:
                self._report(extend_path(path, keyword), "strict mode does not have this keyword")
        strict = {keyword: value for keyword, value in schema.items() if keyword in _KEPT}
        text = schema.get("format")
        if text is not None and text not in _FORMATS:
            self._report(extend_path(path, "format"), f"strict mode does not have the format {text!r}")
        if any(keyword in schema for keyword in _COMPOSED):
            return _add_notes(self._convert_composed(schema, strict, path), schema)
        self._add_type(schema, strict, path)
        if "object" in list_declared_types(strict):
            strict |= self._convert_object(schema, path)
        if "array" in list_declared_types(strict):
            if "items" in schema:
                strict["items"] = self.convert(schema["items"], extend_path(path, "items"))
            else:
                self._report(path, "its items may be anything, and strict mode requires their schema")
                strict["items"] = {}
        return _add_notes(strict, schema)

    def _report(self, path: str, text: str) -> None:
        self.problems.append((path, text))

    def _add_type(self, schema: Mapping[str, Any], strict: dict[str, Any], path: str) -> None:
        """If a schema has no type, add the one of its values, because strict mode requires a type everywhere."""
        types = list_declared_types(schema)
        for name in types:
            if name not in TYPES:
                self._report(extend_path(path, "type"), f"there is no type {name!r}")
        if types:
            return
        types = sorted({get_type(value) for value in list_values(schema) or ()})
        if not types or not _SCALARS.issuperset(types):
            self._report(path, "it accepts any type, and strict mode requires a named type")
            return
        strict["type"] = types[0] if len(types) == 1 else types

    def _convert_object(self, schema: Mapping[str, Any], path: str) -> dict[str, Any]:
        additional_properties = schema.get("additionalProperties")
        if additional_properties is None and schema.get("properties") is None:
            self._report(path, "it accepts any properties, and strict mode requires named properties")
        elif additional_properties is not None and additional_properties is not False:
            text = "strict mode only allows objects of named properties"
            self._report(extend_path(path, "additionalProperties"), text)
        subschemas = get_mapping(schema, "properties")
        required = select_texts(schema.get("required"))
        for name in required:
            if name not in subschemas:
                text = f"'{name}' is required, but no property of that name is described"
                self._report(extend_path(path, "required"), text)
        properties = {}
        for name, subschema in subschemas.items():
            place = extend_path(path, "properties", name)
            properties[name] = self._convert_property(subschema, place, is_required=name in required)
        return {"properties": properties, "required": list(subschemas), "additionalProperties": False}

    def _convert_property(self, subschema: Any, path: str, *, is_required: bool) -> dict[str, Any]:
        """Convert a property. If it is optional, it accepts null, and its description explains null."""
        strict = self.convert(subschema, path)
        if is_required or not isinstance(subschema, Mapping) or "null" in list_types(subschema, self.root):
            return strict
        note = "null: the default" if "default" in subschema else "null: as if it were left out"
        return _extend_description(_allow_null(strict), note)

    def _convert_composed(self, schema: Mapping[str, Any], strict: dict[str, Any], path: str) -> dict[str, Any]:
        """Convert a reference or alternatives. Strict mode only allows a title and a description together with them."""
        labels = {keyword: strict[keyword] for keyword in _LABELS if keyword in strict}
        keyword = next(word for word in _COMPOSED if word in schema)
        for other_keyword in dict.fromkeys((*_COMPOSED, *_KEPT, *_CONVERTED)):
            if other_keyword not in schema or other_keyword == keyword or other_keyword in _LABELS:
                continue
            self._report(extend_path(path, other_keyword), f"strict mode allows nothing beside `{keyword}`")
        if keyword == "$ref":
            reference = self._convert_reference(schema["$ref"], extend_path(path, "$ref"))
            # Strict mode allows nothing beside a reference, so put the reference into a single alternative.
            if labels or not _NOTES.isdisjoint(schema):
                return {"anyOf": [reference], **labels}
            return reference
        subschemas = get_list(schema, keyword)
        if keyword == "allOf" and len(subschemas) > 1:
            self._report(extend_path(path, "allOf"), "strict mode cannot combine schemas")
        if keyword == "oneOf" and not _are_exclusive(subschemas, self.root):
            self._report(extend_path(path, "oneOf"), "strict mode only has `anyOf`, and more than one of these may fit")
        alternatives = []
        for index, subschema in enumerate(subschemas):
            alternatives.append(self.convert(subschema, extend_path(path, keyword, index)))
        return {"anyOf": alternatives, **labels}

    def _convert_reference(self, reference: Any, path: str) -> dict[str, Any]:
        if not self._is_allowed_reference(reference):
            self._report(path, "strict mode only allows references to definitions at the root")
        return {"$ref": reference}

    def _is_allowed_reference(self, reference: Any) -> bool:
        """Return whether a reference leads to the root, or to an existing definition of the root."""
        if reference == "#":
            return True
        if not isinstance(reference, str) or not reference.startswith(("#/$defs/", "#/definitions/")):
            return False
        return reference.count("/") == 2 and isinstance(resolve_pointer(reference, self.root), Mapping)


def _allow_null(strict: dict[str, Any]) -> dict[str, Any]:
    """Add null to a strict schema: as another alternative, type or enum member."""
    if "anyOf" in strict:
        return strict | {"anyOf": [*strict["anyOf"], _NULL]}
    types = list_declared_types(strict)
    if "const" not in strict and types and _SCALARS.issuperset(types):
        strict = strict | {"type": list(dict.fromkeys([*types, "null"]))}
        if "enum" in strict and None not in strict["enum"]:
            strict["enum"] = [*strict["enum"], None]
        return strict
    labels = {}
    alternative = {}
    for keyword, value in strict.items():
        if keyword in _LABELS:
            labels[keyword] = value
        else:
            alternative[keyword] = value
    return {"anyOf": [alternative, _NULL], **labels}


def _add_notes(strict: dict[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Add the keywords of `_NOTES` in a schema to the description of its strict form."""
    notes = []
    for keyword in sorted(_NOTES & schema.keys()):
        notes.append(f"{keyword.capitalize()}: {json.dumps(schema[keyword], ensure_ascii=False)}")
    return _extend_description(strict, *notes)


def _extend_description(strict: dict[str, Any], *notes: str) -> dict[str, Any]:
    if not notes:
        return strict
    lines = list(notes)
    description = strict.get("description")
    if isinstance(description, str) and description:
        lines.insert(0, description)
    return strict | {"description": "\n".join(lines)}


def _are_exclusive(alternatives: Sequence[Any], root: Any) -> bool:
    """Return whether no value can fit two of these schemas. Then `oneOf` means the same as `anyOf`.

    Two schemas exclude each other if they have different types, or if they require the same property with different
    constants or enums.
    """
    if len(alternatives) > _MAX_COMPARED:
        return False
    schemas = [resolve_schema(alternative, root) for alternative in alternatives]
    return all(_exclude_each_other(first, second, root) for first, second in combinations(schemas, 2))


def _exclude_each_other(first: Mapping[str, Any], second: Mapping[str, Any], root: Any) -> bool:
    common_types = list_types(first, root, is_exact=True) & list_types(second, root, is_exact=True)
    if not common_types:
        return True
    if common_types != {"object"}:
        return False
    required = set(select_texts(first.get("required"))).intersection(select_texts(second.get("required")))
    return any(_has_distinct_values(name, first, second, root) for name in required)


def _has_distinct_values(name: str, first: Mapping[str, Any], second: Mapping[str, Any], root: Any) -> bool:
    """Return whether a property has a constant or an enum in both schemas, and no common value."""
    first_values = list_values(resolve_schema(get_mapping(first, "properties").get(name), root))
    second_values = list_values(resolve_schema(get_mapping(second, "properties").get(name), root))
    if not first_values or not second_values:
        return False
    return not any(value in second_values for value in first_values)


def _check_limits(strict: Mapping[str, Any]) -> list[str]:
    """Return a line for each limit that a strict schema exceeds."""
    properties = levels = values = longest_enum = 0
    texts: list[str] = []
    for keyword in DEFINITIONS:
        texts += strict.get(keyword) or ()
    for schema, level in _walk(strict, 0):
        if isinstance(schema.get("properties"), Mapping):
            properties += len(schema["properties"])
            levels = max(levels, level)
            texts += schema["properties"]
        if isinstance(schema.get("enum"), list):
            values += len(schema["enum"])
            texts += [value for value in schema["enum"] if isinstance(value, str)]
            if len(schema["enum"]) > LONG_ENUM:
                longest_enum = max(longest_enum, sum(len(str(value)) for value in schema["enum"]))
        if "const" in schema:
            texts.append(str(schema["const"]))
    counts = (
        (properties, MAX_PROPERTIES, "properties"),
        (levels, MAX_LEVELS, "levels of objects"),
        (sum(map(len, texts)), MAX_CHARACTERS, "characters of names and values"),
        (values, MAX_VALUES, "values of enums"),
        (longest_enum, MAX_ENUM_CHARACTERS, f"characters in an enum of more than {LONG_ENUM} values"),
    )
    lines = []
    for count, maximum, subject in counts:
        if count > maximum:
            lines.append(f"it has {count} {subject}, and strict mode accepts {maximum}")
    return lines


def _walk(schema: Any, level: int) -> Iterator[tuple[Mapping[str, Any], int]]:
    """Yield every schema in a strict schema, with its level: how many objects it is nested in, including itself."""
    if not isinstance(schema, Mapping):
        return
    level += "properties" in schema
    yield schema, level
    for subschema in (schema.get("properties") or {}).values():
        yield from _walk(subschema, level)
    yield from _walk(schema.get("items"), level)
    for subschema in schema.get("anyOf") or ():
        yield from _walk(subschema, level)
    for keyword in DEFINITIONS:
        for subschema in (schema.get(keyword) or {}).values():
            yield from _walk(subschema, 0)
