"""Arguments that match an input schema, for calls of every operation of a large document."""

from __future__ import annotations

import functools
import re
from typing import Any

import jsonschema_rs
from hypothesis import Phase, find, settings
from hypothesis.errors import HypothesisException
from hypothesis.strategies import characters, from_regex

Json = dict[str, Any]
MAX_DEPTH = 12
FORMATS = {
    "date": "2026-01-02",
    "date-time": "2026-01-02T03:04:05Z",
    "email": "ann@example.com",
    "uri": "https://example.com/",
    "url": "https://example.com/",
    "uuid": "123e4567-e89b-42d3-a456-426614174000",
    "ipv4": "192.0.2.1",
}
TEXTS = (
    "a", "abcd", "1", "1.2.3", "a-b", "A1", "a_b", "refs/heads/a", "0123456789abcdef0123456789abcdef01234567",
    "123e4567-e89b-42d3-a456-426614174000", f"sha256:{'0' * 64}",
)  # fmt: skip
"""Texts for patterns; the first one that fits is used."""


class NoSample(Exception):
    """No matching arguments exist or were found."""


def sample_arguments(schema: Json, *, is_full: bool) -> Json:
    """Return arguments with all top-level properties, or the required ones. Raises NoSample if they do not fit."""
    properties = schema.get("properties", {})
    names = properties if is_full else schema.get("required", [])
    sampled = {name: sample(properties[name], schema, 0) for name in names}
    problem = next(jsonschema_rs.validator_for(schema, validate_formats=False).iter_errors(sampled), None)
    if problem is not None:
        raise NoSample(f"{problem.message[:200]} at {problem.instance_path}")
    return sampled


def sample(schema: Any, root: Json, depth: int) -> Any:
    """Return a value for a schema, small and usually right."""
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return "x"
    if "$ref" in schema:
        target = root["$defs"][schema["$ref"].rpartition("/")[2]]
        return sample({**target, **{key: value for key, value in schema.items() if key != "$ref"}}, root, depth + 1)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    if "default" in schema and schema["default"] is not None:
        return schema["default"]
    for key in ("oneOf", "anyOf"):
        if key in schema:
            remainder = {name: value for name, value in schema.items() if name != key}
            return sample(merge([remainder, resolve(schema[key][0], root)], root), root, depth + 1)
    if "allOf" in schema:
        remainder = {name: value for name, value in schema.items() if name != "allOf"}
        return sample(
            merge([remainder, *(resolve(subschema, root) for subschema in schema["allOf"])], root), root, depth + 1
        )
    return sample_type(schema, root, depth)


def sample_type(schema: Json, root: Json, depth: int) -> Any:
    kinds = schema.get("type")
    type_name = (kinds[0] if isinstance(kinds, list) else kinds) or ("object" if "properties" in schema else "string")
    if type_name == "object":
        properties = schema.get("properties", {})
        names = [name for name in schema.get("required", ()) if name in properties]
        return {name: sample(properties[name], root, depth + 1) for name in names}
    if type_name == "array":
        count = max(schema.get("minItems", 1), 1)
        items = [sample(schema.get("items", {}), root, depth + 1) for _ in range(count)]
        return [f"{item}{index}" if isinstance(item, str) and index else item for index, item in enumerate(items)]
    if type_name in ("integer", "number"):
        low = schema.get("minimum", schema.get("exclusiveMinimum", 0) + ("exclusiveMinimum" in schema))
        return min(max(low, 1), schema.get("maximum", 10**9))
    if type_name == "string":
        return sample_text(schema)
    return {"boolean": True, "null": None}[type_name]


def sample_text(schema: Json) -> str:
    if schema.get("contentEncoding") == "base64":
        return "QUJD"
    texts = [FORMATS[schema["format"]]] if schema.get("format") in FORMATS else list(TEXTS)
    low, high = schema.get("minLength", 0), schema.get("maxLength", 10**6)
    fitting = [text.ljust(low, "a")[:high] for text in texts]
    pattern = schema.get("pattern")
    if pattern is None:
        return fitting[0]
    validator = jsonschema_rs.validator_for({"pattern": pattern})
    found = next((text for text in fitting if validator.is_valid(text)), None)
    return found if found is not None else make_text(pattern, low, high)


@functools.cache
def make_text(pattern: str, low: int, high: int) -> str:
    """Return a text that matches a pattern. It is empty if the pattern is not valid in Python or matches nothing."""
    is_valid = jsonschema_rs.validator_for({"pattern": pattern, "minLength": low, "maxLength": high}).is_valid
    options = settings(derandomize=True, database=None, phases=[Phase.generate])
    try:
        return find(from_regex(pattern, alphabet=characters(codec="ascii")), is_valid, settings=options)
    except (re.error, HypothesisException):
        return ""


def resolve(schema: Json, root: Json) -> Json:
    while "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    return schema


def merge(schemas: list[Json], root: Json) -> Json:
    merged: Json = {}
    for schema in schemas:
        for key, value in schema.items():
            if key == "properties":
                merged[key] = {**merged.get(key, {}), **value}
            elif key in ("required", "allOf"):
                merged[key] = [*merged.get(key, ()), *value]
            else:
                merged[key] = value
    return merged
