"""Tools in each format: names, descriptions and schemas."""

from __future__ import annotations

import json
import string
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mcp_bridge.export
from mcp_bridge import ToolEntry, ToolRegistry
from mcp_bridge._contracts.errors import ToolNotFound
from mcp_bridge.errors import ConfigError
from mcp_bridge.export import FORMATS, Export
from tests.kits.export.export_kit import ALL_FORMATS, TREE, list_functions, make_registry
from tests.kits.fuzzing import use_examples

SAFE = set(string.ascii_letters + string.digits + "_-")
COMPOSED = {"anyOf", "oneOf", "allOf", "enum", "const", "not", "$ref"}


def make_entry(name: str = "t", schema: Any = None, description: Any = "") -> ToolEntry:
    return ToolEntry(name, description, lambda data: data, {} if schema is None else schema)


def export_entries(schema: Any) -> Any:
    """Return the exported form of a schema, which is the same in all formats."""
    return list_functions("openai", Export([make_entry(schema=schema)], "openai").tools)["t"][1]


def test_the_public_module_has_four_names() -> None:
    assert dir(mcp_bridge.export) == ["Export", "FORMATS", "ModelCall", "Problem"]
    assert all(hasattr(mcp_bridge.export, name) for name in dir(mcp_bridge.export))


def test_all_formats_are_listed() -> None:
    assert tuple(FORMATS) == ALL_FORMATS


@pytest.mark.parametrize("form", ALL_FORMATS)
def test_nothing_of_a_schema_is_lost(form: str) -> None:
    assert list_functions(form, Export(make_registry(), form).tools)["tree"][1] == TREE


@pytest.mark.parametrize("form", ALL_FORMATS)
def test_a_description_is_unchanged_or_left_out(form: str) -> None:
    descriptions = {"a": "", "b": None, "c": "Reads.\n\nMore."}
    export = Export([make_entry(name, description=text) for name, text in descriptions.items()], form)
    exported = {name: description for name, (description, _) in list_functions(form, export.tools).items()}
    assert exported == {"a": None, "b": None, "c": "Reads.\n\nMore."}


@pytest.mark.parametrize("form", ALL_FORMATS)
def test_an_export_is_json_and_deterministic(form: str) -> None:
    first, second = Export(make_registry(), form), Export(reversed(make_registry().list()), form)
    assert json.dumps(first.tools) == json.dumps(second.tools)


@pytest.mark.parametrize("schema", [{}, True, {"$schema": "http://json-schema.org/draft-07/schema#"}])
def test_a_tool_that_accepts_any_object_has_no_properties(schema: Any) -> None:
    assert export_entries(schema) == {"type": "object", "properties": {}}


@pytest.mark.parametrize("schema", [{"type": "integer"}, {"type": ["string", "null"]}, {"enum": ["a", "b"]}])
def test_an_input_that_is_no_object_is_the_argument_input(schema: Any) -> None:
    assert export_entries(schema) == {"type": "object", "properties": {"input": schema}, "required": ["input"]}


@pytest.mark.parametrize("word", ["anyOf", "oneOf", "allOf"])
def test_alternatives_at_the_root_are_the_argument_input(word: str) -> None:
    schema = {"type": "object", "properties": {"a": {}, "b": {}}, word: [{"required": ["a"]}, {"required": ["b"]}]}
    export = Export([make_entry(schema=schema)], "openai")
    value = list_functions("openai", export.tools)["t"][1]
    assert value["properties"]["input"] == schema
    assert not COMPOSED & value.keys()
    (problem,) = export.problems
    assert str(problem).startswith(f"tool 't': $.{word}: ")


def test_a_reference_at_the_root_is_replaced_by_its_target() -> None:
    export = Export([make_entry(schema={"$ref": "#/$defs/node", "$defs": TREE["$defs"]})], "openai")
    value = list_functions("openai", export.tools)["t"][1]
    assert value == {**TREE["$defs"]["node"], "$defs": TREE["$defs"]}
    assert export.problems == ()


def test_a_reference_to_nothing_or_to_itself_is_reported() -> None:
    for reference in ("#", "#/$defs/none"):
        export = Export([make_entry(schema={"$ref": reference, "properties": {"a": {}}})], "anthropic")
        assert [problem.path for problem in export.problems] == ["$.$ref"]


def test_a_tool_can_be_left_out() -> None:
    export = Export(make_registry(), "openai", only=["sums.double", "weather"])
    assert set(export.names.values()) == {"sums.double", "weather"}


def test_an_unknown_name_is_an_error_with_the_nearest_one() -> None:
    with pytest.raises(ToolNotFound, match="Did you mean 'weather'"):
        Export(make_registry(), "openai", only=["wether"])


def test_an_unknown_format_is_an_error_with_all_formats() -> None:
    with pytest.raises(ConfigError, match=r"unknown format 'cohere'.*openai, openai-responses, anthropic"):
        Export([], "cohere")


def test_strict_is_rejected_for_formats_without_strict_mode() -> None:
    for form in ("anthropic", "gemini", "bedrock", "ollama"):
        with pytest.raises(ConfigError, match=r"no strict mode.*openai, openai-responses"):
            Export([], form, strict=True)


def test_an_export_may_have_no_tools() -> None:
    assert {form: Export([], form).tools for form in ALL_FORMATS} == {form: [] for form in ALL_FORMATS}


def test_tools_for_the_responses_api_always_have_strict() -> None:
    assert [item["strict"] for item in Export([make_entry()], "openai-responses").tools] == [False]
    assert "strict" not in Export([make_entry()], "openai").tools[0]["function"]


def test_a_changed_name_is_reported() -> None:
    assert [str(item) for item in Export([make_entry("a.b", {"type": "object"})], "openai").problems] == [
        "tool 'a.b': $: the tool is called 'a_b_2e7336dc'"
    ]


def test_names_for_gemini_begin_with_a_letter() -> None:
    export = Export([make_entry("2fa"), make_entry("_2fa"), make_entry("2.fa")], "gemini")
    assert {name[0] for name in export.names} == {"_"}
    assert export.names["_2fa"] == "_2fa"
    assert set(export.names.values()) == {"2fa", "_2fa", "2.fa"}
    assert "2fa" in Export([make_entry("2fa")], "openai").names


def test_a_name_that_looks_like_a_shortened_one_is_not_changed() -> None:
    export = Export([make_entry("a_b_2e7336dc"), make_entry("a.b")], "openai")
    assert export.names["a_b_2e7336dc"] == "a_b_2e7336dc"
    assert set(export.names.values()) == {"a_b_2e7336dc", "a.b"}


@use_examples(50)
@given(st.lists(st.text(), unique=True, max_size=8), st.sampled_from(ALL_FORMATS), st.randoms())
def test_all_names_are_valid_and_unique_in_any_order(names: list[str], form: str, chance: Any) -> None:
    export = Export([make_entry(name) for name in names], form)
    assert sorted(export.names.values()) == sorted(names)
    assert set(list_functions(form, export.tools)) == set(export.names)
    for name in export.names:
        assert 1 <= len(name) <= 64
        assert set(name) <= SAFE
        assert form != "gemini" or name[0] not in "0123456789-"
    shuffled = chance.sample(names, len(names))
    assert Export([make_entry(name) for name in shuffled], form).names == export.names


SCALARS = st.sampled_from([{"type": "string"}, {"type": "integer", "minimum": 0}, {"enum": [1, "a", None]}, {}, True])


def generate_schemas() -> st.SearchStrategy[Any]:
    """Generate schemas of any kind, with any schema at the root."""
    return st.recursive(
        SCALARS,
        lambda parts: st.one_of(
            st.fixed_dictionaries(
                {"type": st.just("object"), "properties": st.dictionaries(st.sampled_from("abc"), parts, max_size=3)},
                optional={"required": st.just(["a"]), "additionalProperties": parts},
            ),
            st.fixed_dictionaries({"type": st.just("array"), "items": parts}),
            st.fixed_dictionaries({"anyOf": st.lists(parts, min_size=1, max_size=3)}),
            st.just({"$ref": "#/$defs/d"}),
        ),
        max_leaves=6,
    ).map(lambda value: value if value is True else {**value, "$defs": {"d": {"type": "object", "required": ["a"]}}})


VALUES = st.recursive(
    st.sampled_from([None, "a", "b", 1, -1, 1.5, True]),
    lambda parts: st.lists(parts, max_size=2) | st.dictionaries(st.sampled_from("abcd"), parts, max_size=3),
    max_leaves=6,
)


@use_examples(50)
@given(generate_schemas(), VALUES, st.sampled_from(ALL_FORMATS))
def test_the_exported_schema_accepts_the_same_arguments_as_the_tool(schema: Any, value: Any, form: str) -> None:
    export = Export([make_entry(schema=schema)], form)
    exported_schema = list_functions(form, export.tools)["t"][1]
    jsonschema.Draft202012Validator.check_schema(exported_schema)
    assert exported_schema["type"] == "object"
    assert not COMPOSED & exported_schema.keys()
    exported, original = jsonschema.Draft202012Validator(exported_schema), jsonschema.Draft202012Validator(schema)
    if "input" in exported_schema["properties"]:
        is_valid = original.is_valid(value)
        # A schema with alternatives at its root is the argument `input` for objects. Other inputs are of any type.
        if any("the whole input" in problem.text for problem in export.problems):
            is_valid = is_valid and isinstance(value, dict)
        assert exported.is_valid({"input": value}) is is_valid
    elif isinstance(value, dict):
        assert exported.is_valid(value) is original.is_valid(value)


def test_duplicate_entries_are_rejected() -> None:
    with pytest.raises(ValueError, match="already registered"):
        Export([make_entry(), make_entry()], "openai")


def test_an_export_is_a_snapshot() -> None:
    tools = ToolRegistry()
    tools.register(make_entry("first"))
    export = Export(tools, "openai")
    tools.register(make_entry("second"))
    assert list(export.names) == ["first"]
