"""Arguments with JSON in a string are parsed where the string does not fit, and nowhere else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bridge._json_schema.validator import Validator
from mcp_bridge._protocol.dialects import argument_repair
from mcp_bridge._protocol.dialects.argument_repair import ArgumentRepair
from tests.kits.dialects.dialect_kit import TREE, VALUES
from tests.kits.fuzzing import use_examples


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ({"numbers": "[1, 2.5]"}, {"numbers": [1, 2.5]}),
        ({"numbers": '["1", "2"]'}, {"numbers": [1, 2]}),
        ({"place": '{"x": 3}'}, {"place": {"x": 3}}),
        ({"place": '{"x": "3"}'}, {"place": {"x": 3}}),
        ({"place": {"x": "3"}}, {"place": {"x": 3}}),
        ({"place": "null"}, {"place": None}),
        ({"count": "7"}, {"count": 7}),
        ({"count": "123456789012345678901234567890"}, {"count": 123456789012345678901234567890}),
        ({"exact": "true", "count": "1"}, {"exact": True, "count": 1}),
        ({"note": "[1]", "count": "1"}, {"note": "[1]", "count": 1}),
    ],
)
def test_json_in_a_string_is_parsed_where_the_schema_accepts_its_type(
    given_: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert ArgumentRepair(VALUES).repair(given_) == expected
    assert Validator(VALUES).is_valid(expected)


@pytest.mark.parametrize(
    "value",
    [
        {"numbers": '{"x": 1}'},
        {"numbers": "[1, 2"},
        {"count": "7.5"},
        {"count": "NaN"},
        {"exact": "True"},
        # Parsers would differ about the value.
        {"place": '{"x": 1, "x": 2}'},
        {"place": '{"x": "\\ud800"}'},
        {"numbers": "[" * 10_000 + "]" * 10_000},
    ],
)
def test_other_values_are_left_to_the_validator(value: dict[str, Any]) -> None:
    assert ArgumentRepair(VALUES).repair(value) is value


def test_recursive_schemas_are_parsed_at_any_depth() -> None:
    leaf = json.dumps({"name": "c"})
    middle = json.dumps({"name": "b", "branches": [leaf]})
    repaired_arguments = ArgumentRepair(TREE).repair(
        {"tree": json.dumps({"name": "a", "branches": json.dumps([middle])})}
    )
    assert repaired_arguments == {"tree": {"name": "a", "branches": [{"name": "b", "branches": [{"name": "c"}]}]}}


def test_a_string_is_parsed_where_the_schema_accepts_other_texts() -> None:
    schema = {"properties": {"ids": {"anyOf": [{"const": "all"}, {"type": "array", "items": {"type": "integer"}}]}}}
    repair = ArgumentRepair(schema).repair
    assert repair({"ids": "[1, 2]"}) == {"ids": [1, 2]}
    assert repair({"ids": "all"}) == {"ids": "all"}


def test_a_string_stays_where_a_schema_without_a_type_accepts_it() -> None:
    schema = {"properties": {"options": {"properties": {"a": {}}}, "count": {"type": "integer"}}}
    assert ArgumentRepair(schema).repair({"options": "{}", "count": "1"}) == {"options": "{}", "count": 1}


def test_the_first_alternative_that_accepts_the_parsed_value_is_used() -> None:
    kinds = [
        {"properties": {"kind": {"const": "text"}, "value": {"type": "string"}}, "required": ["kind", "value"]},
        {"properties": {"kind": {"const": "number"}, "value": {"type": "number"}}, "required": ["kind", "value"]},
    ]
    repair = ArgumentRepair({"type": "object", "oneOf": kinds}).repair
    assert repair({"kind": "number", "value": "5"}) == {"kind": "number", "value": 5}
    fits = {"kind": "text", "value": "5"}
    assert repair(fits) is fits


def test_values_without_a_schema_are_unchanged() -> None:
    given_ = {"count": "1", "more": "[1]", "patterned": {"a": "1"}}
    schema = {"properties": {**VALUES["properties"], "patterned": {"patternProperties": {"^a": {"type": "integer"}}}}}
    assert ArgumentRepair(schema).repair(given_) == {"count": 1, "more": "[1]", "patterned": {"a": "1"}}


def test_prefix_items_and_additional_properties_are_parsed() -> None:
    schema = {
        "properties": {
            "pair": {"prefixItems": [{"type": "string"}, {"type": "integer"}], "items": {"type": "boolean"}}
        },
        "additionalProperties": {"type": "number"},
    }
    repaired_arguments = ArgumentRepair(schema).repair({"pair": ["1", "2", "true", "false"], "more": "1.5"})
    assert repaired_arguments == {"pair": ["1", 2, True, False], "more": 1.5}


def test_references_to_the_root_and_schemas_with_an_id_are_followed() -> None:
    schema = {
        "$id": "https://example.com/node",
        "type": "object",
        "properties": {"value": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
    }
    repaired_arguments = ArgumentRepair(schema).repair({"next": '{"value": "1", "next": {"value": "2"}}'})
    assert repaired_arguments == {"next": {"value": 1, "next": {"value": 2}}}


def test_the_steps_through_nested_alternatives_are_limited() -> None:
    alternatives = [
        {"properties": {"a": {"$ref": "#/$defs/n"}, "x": {"const": number}}, "required": ["x"]} for number in range(20)
    ]
    schema = {"$ref": "#/$defs/n", "$defs": {"n": {"anyOf": alternatives}}}
    value: dict[str, Any] = {"x": "none"}
    for _ in range(40):
        value = {"a": value, "x": "none"}
    assert ArgumentRepair(schema).repair(value) == value


def test_a_reference_to_an_anchor_is_not_a_reference_to_the_root() -> None:
    properties = {"note": {"$ref": "#text"}, "count": {"type": "integer"}}
    schema = {"type": "object", "properties": properties, "$defs": {"t": {"$anchor": "text", "type": "string"}}}
    assert ArgumentRepair(schema).repair({"note": '{"a": 1}', "count": "1"}) == {"note": '{"a": 1}', "count": 1}


@pytest.mark.parametrize("length", [0, 400])
def test_recursive_alternatives_end(length: int) -> None:
    chain = {f"n{n}": {"anyOf": [{"$ref": f"#/$defs/n{n + 1}"}, {"type": "null"}]} for n in range(length)}
    last = {f"n{length}": {"anyOf": [{"$ref": "#/$defs/n0"}, {"type": "integer"}]}}
    properties = {"count": {"type": "integer"}, "x": {"$ref": "#/$defs/n0"}}
    schema = {"properties": properties, "required": ["missing"], "$defs": chain | last}
    repaired_arguments = ArgumentRepair(schema).repair({"x": [1], "count": "1"})
    assert repaired_arguments["x"] == [1]


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Record the compiled schemas: first the whole one, then its parts."""
    schemas: list[Any] = []

    def record_and_compile(schema: Any) -> Validator:
        schemas.append(schema)
        return Validator(schema)

    monkeypatch.setattr(argument_repair, "Validator", record_and_compile)
    return schemas


def test_places_that_accept_any_text_need_no_validator(compiled: list[Any]) -> None:
    properties = {f"p{number}": {"type": "string", "description": "Any."} for number in range(1_000)}
    schema = {"properties": {**properties, "count": {"type": "integer"}}, "required": ["count"]}
    repaired_arguments = ArgumentRepair(schema).repair(dict.fromkeys(properties, "1") | {"count": "1"})
    assert repaired_arguments == dict.fromkeys(properties, "1") | {"count": 1}
    assert compiled == [schema]


def test_equal_places_share_a_validator(compiled: list[Any]) -> None:
    properties = {f"p{number}": {"$ref": "#/$defs/word"} for number in range(50)}
    schema = {"properties": properties, "required": ["no"], "$defs": {"word": {"type": "string", "pattern": "^a"}}}
    ArgumentRepair(schema).repair(dict.fromkeys(properties, "a1"))
    assert len(compiled) == 2


def test_a_large_schema_is_not_compiled_for_each_of_its_places(compiled: list[Any]) -> None:
    words = {f"w{number}": {"type": "string", "pattern": f"^{number}", "title": "x" * 500} for number in range(500)}
    properties = {name: {"$ref": f"#/$defs/{name}"} for name in words}
    arguments = dict.fromkeys(words, "1")
    assert ArgumentRepair({"properties": properties, "required": ["no"], "$defs": words}).repair(arguments) == arguments
    assert 0 < len([schema for schema in compiled if schema is not True]) < 200


def test_unknown_names_of_clients_are_not_stored() -> None:
    parsing = ArgumentRepair({"additionalProperties": {"type": "integer"}})
    for number in range(100):
        assert parsing.repair({f"n{number}": "x", f"m{number}": "1"}) == {f"n{number}": "x", f"m{number}": 1}
    assert len(parsing._root._children) == 1


TYPED: st.SearchStrategy[tuple[dict[str, Any], Any]] = st.recursive(
    st.one_of(
        st.tuples(st.just({"type": "integer"}), st.integers()),
        st.tuples(st.just({"type": "boolean"}), st.booleans()),
        st.tuples(st.just({"type": "number"}), st.floats(allow_nan=False, allow_infinity=False)),
        st.tuples(st.just({"type": ["object", "null"]}), st.none()),
    ),
    lambda inner: (
        st.lists(inner, max_size=3).map(
            lambda pairs: ({"prefixItems": [one for one, _ in pairs], "type": "array"}, [value for _, value in pairs])
        )
        | st.dictionaries(st.sampled_from("abc"), inner, max_size=3).map(
            lambda pairs: (
                {
                    "type": "object",
                    "properties": {name: one for name, (one, _) in pairs.items()},
                    "required": list(pairs),
                    "additionalProperties": False,
                },
                {name: value for name, (_, value) in pairs.items()},
            )
        )
        | inner.map(lambda pair: ({"anyOf": [{"type": "string", "maxLength": 0}, pair[0]]}, pair[1]))
        | inner.map(lambda pair: ({"allOf": [{"not": {"const": "nothing"}}, pair[0]]}, pair[1]))
    ),
    max_leaves=6,
)


@use_examples(50)
@given(pair=TYPED, data=st.data())
def test_values_that_were_put_into_strings_are_restored(pair: tuple[dict[str, Any], Any], data: st.DataObject) -> None:
    schema, value = pair

    def strung(value: Any) -> Any:
        if isinstance(value, list):
            value = [strung(item) for item in value]
        if isinstance(value, dict):
            value = {name: strung(item) for name, item in value.items()}
        return json.dumps(value) if data.draw(st.booleans()) else value

    object_schema = {"type": "object", "properties": {"it": schema}, "required": ["it"]}
    assert ArgumentRepair(object_schema).repair({"it": strung(value)}) == {"it": value}


ARGUMENTS = st.dictionaries(
    st.sampled_from(sorted(VALUES["properties"])),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-3, 3)
        | st.sampled_from(["", "1", "[1]", '{"x": 1}', "true", "null", "a"]),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.just("x"), inner),
        max_leaves=4,
    ),
)


@use_examples(50)
@given(arguments=ARGUMENTS)
def test_a_valid_argument_is_never_changed_next_to_invalid_ones(arguments: dict[str, Any]) -> None:
    repaired_arguments = ArgumentRepair(VALUES).repair(arguments)
    for name, value in arguments.items():
        if Validator(VALUES["properties"][name]).is_valid(value):
            assert repaired_arguments[name] is value


PAGE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "minLength": 1},
        "limit": {"type": "integer", "default": 10},
        "note": {"type": "string"},
        "cursor": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "sort": {"type": "object", "properties": {"by": {"enum": ["name", "age"]}}},
    },
    "required": ["query"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"query": "a", "limit": None}, {"query": "a"}),
        ({"query": "a", "limit": ""}, {"query": "a"}),
        ({"query": "a", "limit": None, "note": "", "cursor": None}, {"query": "a", "note": "", "cursor": None}),
        ({"query": "a", "sort": {"by": None}}, {"query": "a", "sort": {}}),
        ({"query": None, "limit": None}, {"query": None}),
        ({"query": "", "limit": 1}, {"query": "", "limit": 1}),
        ({"query": "a", "limit": "5"}, {"query": "a", "limit": "5"}),
        ({"query": "a", "other": None}, {"query": "a", "other": None}),
    ],
)
def test_an_empty_optional_argument_is_left_out_if_it_does_not_fit(
    arguments: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert ArgumentRepair(PAGE, parse_strings=False, omitted=(None, "")).repair(arguments) == expected


def test_empty_arguments_stay_unless_the_setting_leaves_them_out() -> None:
    arguments = {"query": "a", "limit": None}
    assert ArgumentRepair(PAGE).repair(arguments) is arguments
    assert ArgumentRepair(PAGE, omitted=(None, "")).repair({"query": "a", "limit": "5", "note": None}) == {
        "query": "a",
        "limit": 5,
    }
