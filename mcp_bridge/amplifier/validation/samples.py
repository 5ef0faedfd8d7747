"""Made-up arguments and events: some that fit a schema, and odd ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonschema_rs

DEEP = 8
"""How deep made-up data goes."""
LONGEST = 100_000
"""Characters of the longest text that is made up."""
_FORMATS = {
    "date": "2020-02-29",
    "date-time": "2020-02-29T12:00:00Z",
    "time": "12:00:00Z",
    "email": "nobody@example.invalid",
    "uri": "https://example.invalid/",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "192.0.2.1",
    "hostname": "example.invalid",
}
LONG = "sample \N{SNOWMAN} \x07 " * 200
"""Text that is long, and not only letters."""


class Judge:
    """What fits a schema. Raises ValueError saying why, where it is no schema of an object."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        try:
            options = jsonschema_rs.RegexOptions()
            self._validator = jsonschema_rs.validator_for(dict(schema), offline=True, pattern_options=options)
        except Exception as error:
            raise ValueError(str(error).splitlines()[0]) from error
        kind = schema.get("type", "object")
        if kind != "object":
            raise ValueError(f"its type is {kind!r}, and arguments are an object")

    def fits(self, arguments: dict[str, Any]) -> bool:
        """Whether arguments fit."""
        try:
            return self._validator.is_valid(arguments)
        except Exception:  # what the library cannot judge is none of the tool's doing
            return False


def sample(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments made after a schema: what is required, with values of the right form as far as that is easy."""
    made = _made(schema, schema, 0)
    return made if isinstance(made, dict) else {}


def odd(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Arguments that nobody means: none, of the wrong types, too long, too deep, unknown ones."""
    known = schema.get("properties")
    names = [str(name) for name in known][:20] if isinstance(known, Mapping) else []
    deep: Any = "end"
    for _ in range(50):
        deep = {"in": deep}
    return [
        {},
        dict.fromkeys(names),
        dict.fromkeys(names, LONG) or {"text": LONG},
        dict.fromkeys(names, -1) or {"number": -1},
        {name: [None] for name in names} or {"list": [None]},
        dict.fromkeys(names, deep) or {"deep": deep},
        {**sample(schema), "an_unknown_key": True},
    ]


def _made(schema: Any, whole: Mapping[str, Any], depth: int) -> Any:
    if not isinstance(schema, Mapping) or depth > DEEP:
        return None
    if "$ref" in schema:
        return _made(_referred(str(schema["$ref"]), whole), whole, depth + 1)
    if "const" in schema:
        return schema["const"]
    for named in ("enum", "examples"):
        if isinstance(schema.get(named), list) and schema[named]:
            return schema[named][0]
    if "default" in schema:
        return schema["default"]
    for several in ("anyOf", "oneOf"):
        if isinstance(schema.get(several), list) and schema[several]:
            return _joined(schema, several, whole, depth)
    if isinstance(schema.get("allOf"), list):
        return _joined(schema, "allOf", whole, depth)
    return _of_type(schema, whole, depth)


def _joined(schema: Mapping[str, Any], word: str, whole: Mapping[str, Any], depth: int) -> Any:
    """The first of several, or all of them, with what stands beside them."""
    rest = {key: value for key, value in schema.items() if key != word}
    chosen = schema[word] if word == "allOf" else schema[word][:1]
    parts = [_made(part, whole, depth + 1) for part in chosen]
    if "properties" not in rest and parts and not all(isinstance(part, dict) for part in parts):
        return parts[0]
    made = _of_type({**rest, "type": "object"}, whole, depth)
    for part in parts:
        made.update(part if isinstance(part, dict) else {})
    return made


def _of_type(schema: Mapping[str, Any], whole: Mapping[str, Any], depth: int) -> Any:
    kind = schema.get("type", "object" if "properties" in schema or depth == 0 else "string")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind == "object":
        properties = schema.get("properties", {})
        names = schema.get("required", [])
        return {str(name): _made(properties.get(name, {}), whole, depth + 1) for name in names}
    if kind == "array":
        least = schema.get("minItems", 0)
        return [_made(schema.get("items", {}), whole, depth + 1) for _ in range(min(least, 10))]
    if kind in ("integer", "number"):
        return _number(schema)
    return {"boolean": False, "null": None}.get(str(kind), _text(schema))


def _number(schema: Mapping[str, Any]) -> Any:
    low = schema.get("minimum", schema.get("exclusiveMinimum", 0))
    number = low + 1 if "exclusiveMinimum" in schema else max(low, min(1, schema.get("maximum", 1)))
    step = schema.get("multipleOf")
    return number if not step else -(-number // step) * step


def _text(schema: Mapping[str, Any]) -> str:
    text = _FORMATS.get(str(schema.get("format")), "sample")
    return text.ljust(min(schema.get("minLength", 0), LONGEST), "x")[: schema.get("maxLength", LONGEST)]


def _referred(reference: str, whole: Mapping[str, Any]) -> Any:
    node: Any = whole
    for part in reference.removeprefix("#").split("/")[1:]:
        node = node.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(node, Mapping) else None
    return node
