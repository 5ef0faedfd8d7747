"""Any parameters have a valid JSON Schema, and valid arguments reach the provider unchanged."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
from hypothesis import given
from hypothesis import strategies as st

from mcp_bridge._integrations.xaibo.schemas import build_schema, convert_arguments
from mcp_bridge._json_schema.validator import Validator
from mcp_bridge.xaibo import Tool, ToolParameter
from tests.kits.fuzzing import use_examples

ALIASES = ["str", "int", "float", "bool", "list", "dict", "None"]
KINDS = ["string", "integer", "number", "boolean", "object", "array", "null"]
TEXTS = st.text(max_size=5)
DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
MEMBERS = TEXTS | st.sampled_from(["1", "1.0", "2.5", "true", "False", "null", "[]", "-0", "1e400"])
SPARSE = st.fixed_dictionaries(
    {"type": st.sampled_from([*KINDS, *ALIASES, "any", "Thing"]) | TEXTS},
    optional={
        "description": st.none() | TEXTS,
        "required": st.none() | st.booleans(),
        "default": DATA,
        "enum": st.none() | st.lists(MEMBERS, max_size=4),
    },
)
PARAMETERS = st.dictionaries(TEXTS, SPARSE.map(ToolParameter.model_validate), max_size=4)


@use_examples(40)
@given(PARAMETERS)
def test_the_schema_is_valid_json_schema(parameters: dict[str, ToolParameter]) -> None:
    schema = build_schema(parameters)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft7Validator.check_schema(schema)
    assert json.loads(json.dumps(schema, allow_nan=False)) == schema
    assert list(schema["properties"]) == list(parameters)


@use_examples(40)
@given(PARAMETERS)
def test_no_enum_of_a_schema_is_empty(parameters: dict[str, ToolParameter]) -> None:
    for schema in build_schema(parameters)["properties"].values():
        for member in schema.get("enum", ()):
            jsonschema.validate(member, schema)


@use_examples(40)
@given(PARAMETERS)
def test_a_tool_is_the_same_after_both_conversions(parameters: dict[str, ToolParameter]) -> None:
    tool = Tool(name="t", description="d", parameters=parameters)
    second_run = Tool.model_validate(tool.model_dump(exclude_unset=True))
    assert repr(second_run) == repr(tool)
    assert build_schema(second_run.parameters) == build_schema(tool.parameters)


@use_examples(40)
@given(PARAMETERS, st.dictionaries(TEXTS, DATA, max_size=4))
def test_arguments_have_the_same_names_after_conversion(
    parameters: dict[str, ToolParameter], given: dict[str, Any]
) -> None:
    result = convert_arguments(parameters, given)
    assert list(result) == list(given)
    for name, value in given.items():
        if result[name] is not value:
            assert isinstance(value, int | float)
            assert result[name] in (parameters[name].enum or [])


@use_examples(40)
@given(PARAMETERS)
def test_members_of_an_enum_become_the_texts_of_the_provider(parameters: dict[str, ToolParameter]) -> None:
    for name, schema in build_schema(parameters)["properties"].items():
        for member in schema.get("enum", ()):
            assert convert_arguments(parameters, {name: member})[name] in (parameters[name].enum or [])


@use_examples(40)
@given(PARAMETERS, st.dictionaries(TEXTS, DATA, max_size=3))
def test_the_schema_is_validated_like_by_the_reference(
    parameters: dict[str, ToolParameter], given: dict[str, Any]
) -> None:
    schema = build_schema(parameters)
    # NaN is not equal to itself.
    if json.loads(json.dumps(given)) == given:
        expected = jsonschema.Draft202012Validator(schema).is_valid(given)
        assert Validator(schema).is_valid(given) == expected
