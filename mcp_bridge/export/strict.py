"""OpenAI's strict mode: a schema in its subset of JSON Schema, or what there is in it that cannot be said there.

Every property is required, those that were optional take null, and no object takes what it does not name. Nothing
else changes: what the subset has no word for is reported by JSON path, never left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp_bridge.export.disjoint import apart
from mcp_bridge.export.limits import excess
from mcp_bridge.export.nulls import Nulls, types_of
from mcp_bridge.schema.references import below, resolve

_SCALARS = frozenset({"string", "number", "integer", "boolean", "null"})
_TYPES = _SCALARS | {"object", "array"}
_LABELS = ("title", "description")
_SAID = frozenset({"default", "examples", "example"})
"""Notes for the model that go into the description."""
_DROPPED = frozenset({"$comment", "deprecated", "readOnly", "writeOnly", "discriminator"})
"""Notes that say nothing about what fits."""
_KEPT = frozenset(
    {
        "type", "enum", "const", "pattern", "format", "multipleOf", "maximum", "exclusiveMaximum", "minimum",
        "exclusiveMinimum", "minItems", "maxItems", *_LABELS,
    }
)  # fmt: skip
_MADE = frozenset({"properties", "required", "additionalProperties", "items", "anyOf", "oneOf", "allOf", "$ref"})
_DEFINITIONS = ("$defs", "definitions")
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_COMPOSED = ("$ref", "anyOf", "oneOf", "allOf")
_NULL = {"type": "null"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Strict:
    """A schema in strict form; with problems, each a JSON path and a text, it must not be used as such."""

    schema: dict[str, Any]
    problems: tuple[tuple[str, str], ...]


def strictly(schema: Mapping[str, Any]) -> Strict:
    """The strict form of a tool's input schema, whose root is an object."""
    making = _Making(root=schema, nulls=Nulls(schema))
    own = {keyword: value for keyword, value in schema.items() if keyword not in (*_DEFINITIONS, "$id")}
    made = making.schema(own, "$")
    for word in _DEFINITIONS:
        if isinstance(named := schema.get(word), Mapping) and named:
            made[word] = {name: making.schema(part, below("$", word, name)) for name, part in named.items()}
    if not making.problems:
        making.problems += [("$", text) for text in excess(made)]
    return Strict(schema=made, problems=tuple(making.problems))


@dataclass(slots=True, kw_only=True)
class _Making:
    """One walk over a schema: what it made stands in its answers, what it could not say in `problems`."""

    root: Mapping[str, Any]
    nulls: Nulls
    problems: list[tuple[str, str]] = field(default_factory=list)

    def schema(self, schema: Any, path: str) -> dict[str, Any]:
        """The strict form of one part."""
        if not isinstance(schema, Mapping):
            self._cannot(path, f"strict mode has no `{json.dumps(schema)}` for a schema")
            return {}
        for keyword in schema.keys() - _KEPT - _MADE - _SAID - _DROPPED:
            self._cannot(below(path, keyword), "strict mode does not have this keyword")
        made = {keyword: value for keyword, value in schema.items() if keyword in _KEPT}
        if (text := schema.get("format")) is not None and text not in _FORMATS:
            self._cannot(below(path, "format"), f"strict mode does not have the format {text!r}")
        if any(word in schema for word in _COMPOSED):
            return _described(self._composed(schema, made, path), schema)
        self._typed(schema, made, path)
        if "object" in types_of(made):
            made |= self._object(schema, path)
        if "array" in types_of(made):
            made["items"] = self._items(schema, path)
        return _described(made, schema)

    def _cannot(self, path: str, text: str) -> None:
        self.problems.append((path, text))

    def _typed(self, schema: Mapping[str, Any], made: dict[str, Any], path: str) -> None:
        """Strict mode wants a type everywhere: one that follows from the values is said, otherwise there is none."""
        if kinds := types_of(schema):
            for kind in kinds:
                if kind not in _TYPES:
                    self._cannot(below(path, "type"), f"there is no type {kind!r}")
            return
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        kinds = sorted({_kind(value) for value in values}) if isinstance(values, list) and values else []
        if not kinds or not _SCALARS.issuperset(kinds):
            self._cannot(path, "it takes any type, and strict mode wants one to be named")
            return
        made["type"] = kinds[0] if len(kinds) == 1 else kinds

    def _object(self, schema: Mapping[str, Any], path: str) -> dict[str, Any]:
        more = schema.get("additionalProperties")
        properties = schema.get("properties")
        if more is not None and more is not False:
            self._cannot(below(path, "additionalProperties"), "strict mode has objects of named properties alone")
        elif more is None and properties is None:
            self._cannot(path, "it takes any properties, and strict mode wants them to be named")
        parts = properties if isinstance(properties, Mapping) else {}
        required = [name for name in schema.get("required") or () if isinstance(name, str)]
        for name in required:
            if name not in parts:
                self._cannot(
                    below(path, "required"), f"'{name}' is required, but no property of that name is described"
                )
        place = below(path, "properties")
        made = {name: self._property(part, below(place, name), name in required) for name, part in parts.items()}
        return {"properties": made, "required": list(parts), "additionalProperties": False}

    def _property(self, part: Any, path: str, required: bool) -> dict[str, Any]:
        made = self.schema(part, path)
        if required or not isinstance(part, Mapping) or self.nulls.fit(part):
            return made
        note = "null: as if it were left out" if "default" not in part else "null: the default"
        return _annotated(_nullable(made), note)

    def _items(self, schema: Mapping[str, Any], path: str) -> dict[str, Any]:
        if "items" not in schema:
            self._cannot(path, "its items may be anything, and strict mode wants their schema")
            return {}
        return self.schema(schema["items"], below(path, "items"))

    def _composed(self, schema: Mapping[str, Any], made: dict[str, Any], path: str) -> dict[str, Any]:
        """A reference or alternatives; beside them strict mode has labels alone."""
        labels = {word: made[word] for word in _LABELS if word in made}
        words = [word for word in (*_COMPOSED, *_KEPT, *_MADE) if word in schema and word not in _LABELS]
        word, *beside = dict.fromkeys(words)
        for other in beside:
            self._cannot(below(path, other), f"strict mode has nothing beside `{word}`")
        if word == "$ref":
            reference = self._reference(schema["$ref"], below(path, "$ref"))
            return {"anyOf": [reference], **labels} if labels or _SAID & schema.keys() else reference
        parts = schema[word] if isinstance(schema[word], list) else []
        if word == "allOf" and len(parts) > 1:
            self._cannot(below(path, "allOf"), "strict mode cannot put schemas together")
        if word == "oneOf" and not apart(parts, self.root):
            text = "strict mode has `anyOf` alone, and more than one of these may fit"
            self._cannot(below(path, "oneOf"), text)
        return {"anyOf": [self.schema(part, below(path, word, at)) for at, part in enumerate(parts)], **labels}

    def _reference(self, reference: Any, path: str) -> dict[str, Any]:
        known = reference == "#" or (
            isinstance(reference, str)
            and reference.startswith(("#/$defs/", "#/definitions/"))
            and reference.count("/") == 2
            and isinstance(resolve(reference, self.root), Mapping)
        )
        if not known:
            self._cannot(path, "strict mode has references to definitions at the root alone")
        return {"$ref": reference}


def _kind(value: Any) -> str:
    kinds: dict[type, str] = {bool: "boolean", str: "string", int: "integer", float: "number", type(None): "null"}
    return kinds.get(type(value), "other")


def _nullable(made: dict[str, Any]) -> dict[str, Any]:
    """The same, or null."""
    if "anyOf" in made:
        return made | {"anyOf": [*made["anyOf"], _NULL]}
    if "const" not in made and types_of(made) and _SCALARS.issuperset(types_of(made)):
        values = {"enum": [*made["enum"], None]} if "enum" in made and None not in made["enum"] else {}
        return made | {"type": list(dict.fromkeys([*types_of(made), "null"]))} | values
    labels = {word: made[word] for word in _LABELS if word in made}
    return {"anyOf": [{word: part for word, part in made.items() if word not in labels}, _NULL], **labels}


def _described(made: dict[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Notes that strict mode has no keyword for, in words."""
    notes = [
        f"{word.capitalize()}: {json.dumps(schema[word], ensure_ascii=False)}" for word in sorted(_SAID & schema.keys())
    ]
    return _annotated(made, *notes)


def _annotated(made: dict[str, Any], *notes: str) -> dict[str, Any]:
    if not notes:
        return made
    given = made.get("description")
    return made | {"description": "\n".join([*([given] if isinstance(given, str) and given else []), *notes])}
