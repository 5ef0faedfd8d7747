"""Schemas published without validation: the validator understands every one of them."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bridge._json_schema.schema_checks import is_plain
from mcp_bridge._json_schema.validator import Validator

COUNTS = ("minLength", "maxLength", "minItems", "maxItems")
NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
ODD: tuple[Any, ...] = (
    None, True, False, "", "string", "x", "\ud800", 0, -1, 1.5, 2**60, -(2**70), 1e308, float("inf"), float("nan"),
    b"x", [], ["string"], ["string", "string"], ["x"], [1], [None], [["x"]], [{"a": 1}], [object()], {}, {"a": {}},
    {"a": 1}, {1: {}}, {"\ud800": {}}, {"type": "text"}, {"$ref": "#/nowhere"}, {"pattern": "(?=x)"}, (), ("string",),
    {"string"},
)  # fmt: skip
KEYWORDS = (
    "type", "required", "enum", "title", "description", "const", "default", *COUNTS, *NUMBERS, "properties", "items",
    "additionalProperties", "anyOf", "oneOf", "allOf", "pattern", "$ref", "format", "not", "prefixItems", "",
)  # fmt: skip


def is_understood(schema: Any) -> bool:
    return not Validator(schema).ignored_keywords


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_a_plain_schema_is_understood_whatever_the_value_of_a_keyword(keyword: str) -> None:
    schemas = [{keyword: value} for value in ODD]
    schemas += [{"properties": {"a": schema}} for schema in schemas] + [{"anyOf": [schema]} for schema in schemas]
    assert [schema for schema in schemas if is_plain(schema) and not is_understood(schema)] == []


@given(
    st.recursive(
        st.dictionaries(st.sampled_from(KEYWORDS), st.sampled_from(ODD), max_size=4),
        lambda inner: st.fixed_dictionaries(
            {},
            optional={
                "type": st.sampled_from(["object", "array", "string", ["string", "null"]]),
                "properties": st.dictionaries(st.text(max_size=3), inner, max_size=3),
                "items": inner,
                "anyOf": st.lists(inner, max_size=2),
                "required": st.lists(st.text(max_size=2), max_size=3),
            },
        ),
        max_leaves=6,
    )
)
def test_a_plain_schema_is_understood(schema: dict[Any, Any]) -> None:
    assert not is_plain(schema) or is_understood(schema)


def test_the_schemas_of_ordinary_tools_are_plain() -> None:
    text, number = {"type": "string", "description": "Größe", "minLength": 1}, {"type": "integer", "minimum": 0}
    list_schema = {"type": "array", "items": {"enum": ["a", 1, None]}, "maxItems": 3}
    union = {"anyOf": [text, {"type": ["number", "null"]}], "default": None}
    schema = {
        "type": "object",
        "properties": {"a": text, "b": number, "c": list_schema, "d": union},
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    assert is_plain(schema)
    assert is_understood(schema)


def test_a_schema_that_contains_itself_is_not_plain() -> None:
    schema: dict[str, Any] = {"type": "object"}
    schema["properties"] = {"again": schema}
    deep: dict[str, Any] = {}
    for _ in itertools.repeat(None, 100_000):
        deep = {"items": deep}
    assert [is_plain(schema), is_plain(deep)] == [False, False]
