"""Schemas that are expensive for code that walks schemas: cyclic, exponentially growing, deep, wide and broken ones."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]
COMBINATORS = ("allOf", "anyOf", "oneOf")
LEVELS = 40
"""Levels with two references to the next level. Code that does not remember visited schemas takes 2 ** 40 steps."""
DEPTH = 60
MANY = 1_000


def list_hostile_schemas() -> dict[str, Schema]:
    """Return schemas by name. All are valid JSON below the limits for definitions of servers."""
    schemas: dict[str, Schema] = {}
    for word in COMBINATORS:
        schemas[f"{word} of itself, twice"] = _refer_to({"A": {word: [_ref("A")] * 2}}, "A")
        schemas[f"{word} of each other"] = _refer_to({"A": {word: [_ref("B")] * 2}, "B": {word: [_ref("A")] * 2}}, "A")
        levels = {f"L{level}": {word: [_ref(f"L{level + 1}")] * 2} for level in range(LEVELS)}
        schemas[f"{word} that doubles"] = _refer_to({**levels, f"L{LEVELS}": {"type": "object"}}, "L0")
        nested: Schema = {"type": "object"}
        for _ in range(DEPTH):
            nested = {word: [nested]}
        schemas[f"nested {word}"] = {"type": "object", **nested}
    levels = {
        f"L{level}": {
            "type": "object",
            "properties": dict.fromkeys("xy", _ref(f"L{level + 1}")),
            "required": ["x", "y"],
        }
        for level in range(LEVELS)
    }
    schemas["properties that double"] = _refer_to({**levels, f"L{LEVELS}": {"type": "string"}}, "L0")
    levels = {f"L{level}": dict.fromkeys(("if", "then", "else"), _ref(f"L{level + 1}")) for level in range(LEVELS)}
    schemas["conditions that triple"] = _refer_to({**levels, f"L{LEVELS}": {}}, "L0")
    lists: Schema = {"type": "string"}
    for _ in range(DEPTH // 2):
        lists = {"type": "array", "minItems": 10, "items": lists}
    schemas["lists of lists"] = {"type": "object", "properties": {"a": lists}, "required": ["a"]}
    broken = {f"p{number}": {"$ref": f"#/nowhere/{number}"} for number in range(MANY)}
    schemas["references to nothing"] = {"type": "object", "properties": broken}
    anchors = {f"d{number}": {"$dynamicAnchor": "x"} for number in range(MANY)}
    dynamic = {f"p{number}": {"$dynamicRef": "#x"} for number in range(MANY)}
    schemas["dynamic references"] = {"type": "object", "properties": dynamic, "$defs": anchors}
    kinds = [
        {"type": "object", "properties": {"k": {"const": f"v{number}", "type": "string"}}, "required": ["k"]}
        for number in range(MANY)
    ]
    schemas["many alternatives"] = {"type": "object", "oneOf": kinds}
    products = [
        {"anyOf": [{"properties": {f"p{row}_{number}": {"type": "string"}}} for number in range(10)]}
        for row in range(10)
    ]
    schemas["alternatives that multiply"] = {"type": "object", "allOf": products}
    schemas["references to the root"] = {"type": "object", "allOf": [_ref(), _ref()], "properties": {"a": _ref()}}
    return schemas


def _ref(name: str = "") -> Schema:
    return {"$ref": f"#/$defs/{name}" if name else "#"}


def _refer_to(definitions: Schema, name: str) -> Schema:
    """Return a schema with a reference to a definition at its root and in a property."""
    return {"type": "object", **_ref(name), "properties": {"a": _ref(name)}, "required": ["a"], "$defs": definitions}
