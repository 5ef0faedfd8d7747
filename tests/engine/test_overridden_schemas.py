"""Hidden and fixed arguments of tools with composed schemas, and arguments that cannot be removed."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bridge import ToolEntry
from mcp_bridge._engine.overrides import ToolOverride
from mcp_bridge._json_schema.validator import Validator

NAMES = {name: {"type": "string"} for name in ("a", "b", "c")}


def change_schema(override: ToolOverride, **keywords: Any) -> Any:
    """Override a tool with these keywords in its schema, and return the changed schema."""
    schema = {"type": "object", "properties": NAMES, **keywords}
    return override.apply(ToolEntry("echo", "Return the arguments.", lambda data: data, schema)).input_schema


def test_arguments_are_removed_from_all_parts_of_an_object() -> None:
    parts = [{"required": ["a", "b"]}, {"$ref": "#/$defs/more"}]
    definitions = {"more": {"properties": {"a": {"minLength": 1}, "c": {"minLength": 2}}, "required": ["a"]}}
    new_schema = change_schema(ToolOverride(fixed={"a": "x"}), allOf=parts, **{"$defs": definitions})
    assert new_schema == {
        "type": "object",
        "properties": {"b": {"type": "string"}, "c": {"type": "string"}},
        "allOf": [{"required": ["b"]}, {"properties": {"c": {"minLength": 2}}}],
    }


def test_a_schema_that_only_refers_to_another_shows_no_hidden_argument() -> None:
    arguments = {"type": "object", "properties": {**NAMES, "d": {"$ref": "#/$defs/Place"}}, "required": ["a", "b"]}
    root = {"$ref": "#/$defs/Arguments", "$defs": {"Arguments": arguments, "Place": {"type": "string"}}}
    override = ToolOverride(fixed={"a": "x"}, hidden=frozenset("c"), descriptions={"b": "What to find."})
    new_schema = override.apply(ToolEntry("echo", "Return the arguments.", lambda data: data, root))
    assert new_schema.input_schema == {
        "type": "object",
        "properties": {"b": {"type": "string", "description": "What to find."}, "d": {"$ref": "#/$defs/Place"}},
        "required": ["b"],
        "$defs": {"Place": {"type": "string"}},
    }


@pytest.mark.parametrize(
    "keywords",
    [
        {"anyOf": [{"required": ["b"]}, {"required": ["c"]}]},
        {"dependentRequired": {"b": ["c"]}},
        {"if": {"required": ["b"]}, "then": {"required": ["c"]}},
        {"additionalProperties": False},
    ],
)
def test_keywords_that_do_not_concern_a_removed_argument_stay(keywords: dict[str, Any]) -> None:
    new_schema = change_schema(ToolOverride(hidden=frozenset("a")), **keywords)
    assert new_schema == {"type": "object", "properties": {"b": NAMES["b"], "c": NAMES["c"]}, **keywords}


def test_the_description_of_an_argument_is_replaced_wherever_it_is_defined() -> None:
    branches = [{"properties": {"a": {"const": name}, name: True}} for name in ("b", "c")]
    new_schema = change_schema(ToolOverride(descriptions={"a": "Which.", "b": "What."}), oneOf=branches)
    assert new_schema["oneOf"] == [
        {"properties": {"a": {"const": "b", "description": "Which."}, "b": {"description": "What."}}},
        {"properties": {"a": {"const": "c", "description": "Which."}, "c": True}},
    ]


@pytest.mark.parametrize("keywords", [{"required": ["a"]}, {"allOf": [{"required": ["a"]}]}])
def test_a_hidden_argument_without_a_value_that_every_call_needs_is_rejected(keywords: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"the argument 'a' is required.*needs a value"):
        change_schema(ToolOverride(hidden=frozenset("a")), **keywords)


@pytest.mark.parametrize(
    ("keywords", "problem"),
    [
        ({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, r"beside 'anyOf', at \$"),
        ({"allOf": [{"not": {"required": ["a", "b"]}}]}, r"beside 'not', at \$\.allOf\[0\]"),
        ({"oneOf": [{"$ref": "#/$defs/b"}], "$defs": {"b": {}}}, r"beside 'oneOf', at \$"),
        ({"dependentRequired": {"b": ["a"]}}, r"beside 'dependentRequired', at \$"),
        ({"dependencies": {"a": ["b"]}}, r"beside 'dependencies', at \$"),
        ({"enum": [{"a": "x"}]}, r"beside 'enum', at \$"),
        ({"maxProperties": 2}, r"beside 'maxProperties', at \$"),
        ({"allOf": [{"$dynamicRef": "#a"}]}, r"beside '\$dynamicRef', at \$\.allOf\[0\]"),
        ({"allOf": [{"$ref": "#/$defs/loop"}], "$defs": {"loop": {"$ref": "#/$defs/loop"}}}, "cannot be followed"),
        ({"allOf": [{"$ref": "other.json"}]}, r"\$\.allOf\[0\]: the reference 'other.json' cannot be followed"),
        ({"$defs": {"tree": {"items": {"$ref": "#"}}}}, "the reference '#' in its schema refers to what"),
        ({"patternProperties": {"^d": {"$ref": "#/properties/a"}}}, "'#/properties/a' in its schema refers to what"),
        ({"allOf": [False]}, r"\$\.allOf\[0\]: nothing is allowed"),
        ({"allOf": [{"properties": {"a": {"const": "y"}}}]}, r"\$\.allOf\[0\]: the values of its arguments do not"),
    ],
)
def test_a_schema_that_cannot_be_changed_exactly_is_rejected_with_the_place(
    keywords: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        change_schema(ToolOverride(fixed={"a": "x"}), **keywords)


VALUES = (1, 2, "x")
INNER = st.sampled_from([{"type": "integer"}, {"type": "string"}, {"const": 1}, {"enum": [2, "x"]}, True, False, {}])
NAME = st.sampled_from("abc")
LEAVES: dict[str, st.SearchStrategy[Any]] = {
    "properties": st.dictionaries(NAME, INNER, max_size=2),
    "required": st.lists(NAME, unique=True, max_size=2),
    "additionalProperties": INNER,
    "patternProperties": st.dictionaries(st.sampled_from(["^a", "[bc]"]), INNER, max_size=1),
    "propertyNames": st.sampled_from([{"enum": ["a", "b"]}, {"pattern": "[ab]"}, True]),
    "anyOf": st.lists(st.fixed_dictionaries({"required": st.lists(NAME, max_size=1)}), min_size=1, max_size=2),
    "minProperties": st.integers(0, 2),
    "$ref": st.just("#/$defs/one"),
    "title": st.just("T"),
}
LEAF = st.fixed_dictionaries({}, optional=LEAVES)
DEFINITION = st.fixed_dictionaries({}, optional={key: LEAVES[key] for key in LEAVES if key != "$ref"})


@given(LEAF, st.lists(LEAF, max_size=2), DEFINITION, st.booleans(), st.sampled_from(VALUES))
def test_the_changed_schema_accepts_what_the_original_accepts_with_the_fixed_values(
    root: dict[str, Any], parts: list[Any], definition: Any, is_fixed: bool, value: Any
) -> None:
    # The keywords of `root` may replace its properties, so they are also in a part.
    properties = {name: {} for name in "abc"}
    root = {"type": "object", "properties": properties, **root, "allOf": [*parts, {"properties": properties}]}
    root["$defs"] = {"one": definition}
    fixed = {"a": value} if is_fixed else {}
    override = ToolOverride(fixed=fixed, hidden=frozenset() if is_fixed else frozenset("a"))
    calls: list[dict[str, Any]] = []
    for arguments in product((None, *VALUES), repeat=2):
        # None means a missing argument.
        named_arguments = dict(zip("bc", arguments, strict=True))
        calls.append({name: argument for name, argument in named_arguments.items() if argument is not None})
    original = Validator(root)
    try:
        new_schema = Validator(override.apply(ToolEntry("echo", "", lambda data: data, root)).input_schema)
    except ValueError as error:
        # The override may report that it cannot change this schema. Any other error means that no call is possible.
        if "cannot be hidden or fixed" not in str(error):
            assert not any(original.is_valid({**call, **fixed}) for call in calls)
        return
    for call in calls:
        assert new_schema.is_valid(call) == original.is_valid({**call, **fixed})
