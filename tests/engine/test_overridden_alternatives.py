"""Hidden and fixed arguments of tools whose schemas have alternatives and dependencies: calls can satisfy them."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_bridge import ToolEntry, ToolRegistry
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._engine.overrides import ToolOverride
from mcp_bridge.testing import connect
from tests.kits.loops import BOTH_LOOPS

pytestmark = pytest.mark.anyio
NAMES = {name: {"type": "string"} for name in ("a", "b", "c")}


def build(override: ToolOverride, **keywords: Any) -> ToolEntry:
    """Override a tool that returns its arguments, whose schema has these keywords."""
    tool = ToolEntry(
        "echo", "Return the arguments.", lambda data: data, {"type": "object", "properties": NAMES, **keywords}
    )
    return override.apply(tool)


async def call(tool: ToolEntry, **arguments: Any) -> Any:
    """Call the tool through a server; return its output, or None for an error."""
    registry = ToolRegistry()
    registry.register(tool)
    async with connect(Bridge(registry)) as client:
        result = await client.call_tool("echo", arguments)
    return None if result.is_error else result.structured_content


@BOTH_LOOPS
@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
async def test_a_fixed_argument_satisfies_its_alternative(keyword: str) -> None:
    tool = build(ToolOverride(fixed={"a": "x"}), **{keyword: [{"required": ["a", "b"]}, {"required": ["c"]}]})
    assert await call(tool, b="y") == {"a": "x", "b": "y"}
    assert await call(tool, c="z") == {"a": "x", "c": "z"}
    assert await call(tool) is None


@BOTH_LOOPS
async def test_an_alternative_that_needs_a_hidden_argument_is_left_out() -> None:
    tool = build(ToolOverride(hidden=frozenset("a")), anyOf=[{"required": ["a"]}, {"required": ["b"]}])
    assert await call(tool, b="y") == {"b": "y"}
    assert await call(tool) is None


@BOTH_LOOPS
async def test_fixed_arguments_satisfy_all_requirements_and_dependencies() -> None:
    tool = build(
        ToolOverride(fixed={"a": "x"}),
        allOf=[{"required": ["a"]}, {"anyOf": [{"required": ["a"]}]}],
        dependentRequired={"b": ["a"], "a": ["c"]},
    )
    assert await call(tool, b="y", c="z") == {"a": "x", "b": "y", "c": "z"}
    assert await call(tool, b="y") is None


@BOTH_LOOPS
async def test_alternatives_that_do_not_allow_the_fixed_value_are_left_out() -> None:
    branches = [{"properties": {"a": {"const": name}}, "required": ["a", name]} for name in ("b", "c")]
    tool = build(ToolOverride(fixed={"a": "c"}), oneOf=branches)
    assert await call(tool, c="z") == {"a": "c", "c": "z"}
    assert await call(tool, b="y") is None


@pytest.mark.parametrize(
    "keywords",
    [
        {"anyOf": [{"required": ["a"]}]},
        {"oneOf": [{"required": ["a"]}]},
        {"allOf": [{"required": ["a"]}]},
        {"dependentRequired": {"b": ["a"]}},
    ],
)
def test_a_hidden_argument_without_a_value_that_every_call_needs_is_rejected(keywords: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"the argument 'a' is required.*needs a value"):
        build(ToolOverride(hidden=frozenset("a")), **keywords)


@BOTH_LOOPS
async def test_a_fixed_argument_decides_a_condition() -> None:
    condition = {"if": {"properties": {"a": {"const": "x"}}, "required": ["a"]}}
    branches = {"then": {"required": ["b"]}, "else": {"required": ["c"]}}
    tool = build(ToolOverride(fixed={"a": "x"}), **condition, **branches)
    assert await call(tool, b="y") == {"a": "x", "b": "y"}
    assert await call(tool, c="z") is None
    tool = build(ToolOverride(hidden=frozenset("a")), **condition, **branches)
    assert await call(tool, c="z") == {"c": "z"}
    assert await call(tool, b="y") is None


@BOTH_LOOPS
async def test_a_fixed_argument_forbids_what_must_not_be_sent_with_it() -> None:
    tool = build(ToolOverride(fixed={"a": "x"}), **{"not": {"required": ["a", "b"]}})
    assert await call(tool, c="z") == {"a": "x", "c": "z"}
    assert await call(tool, b="y") is None


@BOTH_LOOPS
@pytest.mark.parametrize("keyword", ["$defs", "definitions"])
async def test_alternatives_behind_references_are_changed(keyword: str) -> None:
    parts = {name: {"required": ["a", name]} for name in ("b", "c")}
    references = [{"$ref": f"#/{keyword}/{name}"} for name in parts]
    tool = build(ToolOverride(fixed={"a": "x"}), **{keyword: parts, "oneOf": references})
    assert await call(tool, b="y") == {"a": "x", "b": "y"}
    assert await call(tool) is None


async def test_a_schema_that_only_refers_to_another_shows_no_hidden_argument() -> None:
    arguments = {"type": "object", "properties": {**NAMES, "d": {"$ref": "#/$defs/Place"}}, "required": ["a", "b"]}
    root = {"$ref": "#/$defs/Arguments", "$defs": {"Arguments": arguments, "Place": {"type": "string"}}}
    override = ToolOverride(fixed={"a": "x"}, hidden=frozenset("c"), descriptions={"b": "What to find."})
    changed = override.apply(ToolEntry("echo", "Return the arguments.", lambda data: data, root))
    assert changed.input_schema == {
        "type": "object",
        "properties": {"b": {"type": "string", "description": "What to find."}, "d": {"$ref": "#/$defs/Place"}},
        "required": ["b"],
        "$defs": {"Place": {"type": "string"}},
    }


def test_the_description_of_an_argument_is_replaced_wherever_it_is_defined() -> None:
    branches = [{"properties": {"a": {"const": name}, name: True}} for name in ("b", "c")]
    tool = build(ToolOverride(descriptions={"a": "Which.", "b": "What."}), oneOf=branches)
    assert tool.input_schema["oneOf"] == [
        {"properties": {"a": {"const": "b", "description": "Which."}, "b": {"description": "What."}}},
        {"properties": {"a": {"const": "c", "description": "Which."}, "c": True}},
    ]


@pytest.mark.parametrize(
    ("keywords", "problem"),
    [
        ({"anyOf": [{"enum": [{"a": "x"}]}]}, r"beside 'enum', at \$\.anyOf\[0\]"),
        ({"allOf": [{}], "unevaluatedProperties": False}, r"beside 'unevaluatedProperties', at \$"),
        ({"allOf": [{"$dynamicRef": "#a"}]}, r"beside '\$dynamicRef', at \$\.allOf\[0\]"),
        ({"dependencies": {"a": ["b"]}}, r"beside 'dependencies', at \$"),
        ({"allOf": [{"$ref": "#/$defs/loop"}], "$defs": {"loop": {"$ref": "#/$defs/loop"}}}, "cannot be followed"),
        ({"allOf": [{"$ref": "other.json"}]}, r"\$\.allOf\[0\]: the reference 'other.json' cannot be followed"),
        ({"$defs": {"tree": {"items": {"$ref": "#"}}}}, "the reference '#' in its schema refers to what"),
        ({"patternProperties": {"^d": {"$ref": "#/properties/a"}}}, "'#/properties/a' in its schema refers to what"),
        ({"not": {"properties": {"a": {"const": "x"}}}}, r"\$\.not: the values of its arguments are not allowed"),
        ({"maxProperties": 0}, "at most 0 arguments are allowed"),
        ({"dependentSchemas": {"a": False}}, r"\$\.dependentSchemas\.a: nothing is allowed"),
        ({"oneOf": [{"required": ["a"]}, {"minProperties": 1}]}, "each call matches several alternatives"),
        ({"anyOf": [{"properties": {"a": {"const": "y"}}}]}, r"\$\.anyOf\[0\]: the values of its arguments do not"),
    ],
)
def test_a_schema_that_cannot_be_changed_exactly_is_rejected_with_the_place(
    keywords: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        build(ToolOverride(fixed={"a": "x"}), **keywords)


def test_the_keywords_beside_a_reference_are_ignored_in_old_drafts() -> None:
    draft = "http://json-schema.org/draft-07/schema#"
    root = {"$schema": draft, "$ref": "#/definitions/any", "required": ["a"], "definitions": {"any": {}}}
    root["definitions"]["any"] = {"type": "object", "properties": NAMES}  # type: ignore[index]
    changed = ToolOverride(hidden=frozenset("a")).apply(ToolEntry("echo", "", lambda data: data, root))
    assert list(changed.input_schema["properties"]) == ["b", "c"]
    assert "required" not in changed.input_schema
