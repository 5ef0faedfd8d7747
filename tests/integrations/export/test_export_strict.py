"""OpenAI's strict mode: strict schemas mean what the tool accepts; what they cannot express is reported and kept."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bridge import ToolEntry
from mcp_bridge.export import Export
from tests.kits.export.export_kit import TREE, build_response, list_functions
from tests.kits.fuzzing import use_examples

CLOSED = {"additionalProperties": False}
TEXT = {"type": "string"}
NULL = {"type": "null"}
ONE = {"const": 1, "type": "integer"}
FORM = "openai-responses"


def export_schema(schema: Any) -> Export:
    return Export([ToolEntry("t", "", lambda data: data, schema)], FORM, strict=True)


def get_strict_schema(schema: Any) -> Any:
    """Return the strict form of a schema."""
    export = export_schema(schema)
    assert [str(problem) for problem in export.problems] == []
    assert export.tools[0]["strict"] is True
    return list_functions(FORM, export.tools)["t"][1]


def build_object(subschema: Any, **more: Any) -> dict[str, Any]:
    """Return a schema of an object with one required property."""
    return {"type": "object", "properties": {"a": subschema}, "required": ["a"], **more}


def make_optional(subschema: Any) -> Any:
    """Return the strict form of an optional property."""
    value = get_strict_schema({"type": "object", "properties": {"a": subschema}})
    assert value["required"] == ["a"]
    return value["properties"]["a"]


def read_arguments(schema: Any, arguments: Any) -> Any:
    """Return the arguments for the tool."""
    (call,) = export_schema(schema).calls(build_response(FORM, ("t", arguments)))
    return call.arguments


def test_every_object_is_closed_and_every_property_required() -> None:
    assert get_strict_schema(TREE) == {
        "type": "object",
        "properties": {
            "root": {"$ref": "#/$defs/node"},
            "unit": {
                "type": ["string", "null"],
                "enum": ["c", "f", None],
                "description": 'Of what.\nDefault: "c"\nnull: the default',
            },
            "tags": {
                "anyOf": [{"type": "array", "items": TEXT}, {"type": "null"}],
                "description": "null: as if it were left out",
            },
            "spot": {
                "anyOf": [
                    {
                        "type": "object",
                        "properties": {
                            "x": {"type": "number"},
                            "y": {"type": ["number", "null"], "description": "Default: 0\nnull: the default"},
                        },
                        "required": ["x", "y"],
                        **CLOSED,
                    },
                    {"type": "null"},
                ],
                "description": "null: as if it were left out",
            },
        },
        "required": ["root", "unit", "tags", "spot"],
        **CLOSED,
        "$defs": {
            "node": {
                "type": "object",
                "properties": {
                    "name": TEXT,
                    "next": {
                        "anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}],
                        "description": "null: as if it were left out",
                    },
                },
                "required": ["name", "next"],
                **CLOSED,
            }
        },
    }


@pytest.mark.parametrize(
    ("subschema", "value"),
    [
        (TEXT, TEXT),
        ({"type": "array", "items": TEXT, "minItems": 1}, {"type": "array", "items": TEXT, "minItems": 1}),
        ({"const": 1}, {"const": 1, "type": "integer"}),
        ({"enum": ["a", 1, None]}, {"enum": ["a", 1, None], "type": ["integer", "null", "string"]}),
        ({"anyOf": [TEXT, {"type": "null"}]}, {"anyOf": [TEXT, {"type": "null"}]}),
        ({"allOf": [TEXT], "title": "A"}, {"anyOf": [TEXT], "title": "A"}),
        ({"oneOf": [TEXT, {"type": "integer"}]}, {"anyOf": [TEXT, {"type": "integer"}]}),
        ({"type": "string", "deprecated": True, "$comment": "x"}, TEXT),
        ({"type": "string", "examples": ["é"]}, {"type": "string", "description": 'Examples: ["é"]'}),
        (
            {"$ref": "#", "description": "Once more."},
            {"anyOf": [{"$ref": "#"}], "description": "Once more."},
        ),
    ],
)
def test_keywords_that_strict_mode_supports(subschema: Any, value: Any) -> None:
    assert get_strict_schema(build_object(subschema))["properties"]["a"] == value


@pytest.mark.parametrize(
    ("subschema", "value"),
    [
        (TEXT, {"type": ["string", "null"], "description": "null: as if it were left out"}),
        ({"type": ["string", "null"]}, {"type": ["string", "null"]}),
        ({"const": 1, "default": 1}, {"anyOf": [ONE, NULL], "description": "Default: 1\nnull: the default"}),
        ({"anyOf": [TEXT], "default": 1}, {"anyOf": [TEXT, NULL], "description": "Default: 1\nnull: the default"}),
        ({"type": ["string", "null"], "default": "x"}, {"type": ["string", "null"], "description": 'Default: "x"'}),
    ],
)  # fmt: skip
def test_optional_properties_accept_null(subschema: Any, value: Any) -> None:
    assert make_optional(subschema) == value


def test_branches_with_different_constants_are_alternatives() -> None:
    cat = {
        "type": "object",
        "properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}},
        "required": ["kind"],
    }
    dog = {"type": "object", "properties": {"kind": {"enum": ["dog", "wolf"]}}, "required": ["kind"]}
    schema = build_object(
        {"oneOf": [{"$ref": "#/$defs/cat"}, dog], "discriminator": {"propertyName": "kind"}}, **{"$defs": {"cat": cat}}
    )
    assert len(get_strict_schema(schema)["properties"]["a"]["anyOf"]) == 2
    assert read_arguments(schema, {"a": {"kind": "cat", "lives": None}}) == {"a": {"kind": "cat"}}


@pytest.mark.parametrize(
    ("subschema", "path"),
    [
        ({"type": "string", "minLength": 1}, "$.properties.a.minLength"),
        ({"type": "string", "format": "uri"}, "$.properties.a.format"),
        ({"type": "strange"}, "$.properties.a.type"),
        ({}, "$.properties.a"),
        (True, "$.properties.a"),
        ({"enum": [[1]]}, "$.properties.a"),
        ({"type": "array"}, "$.properties.a"),
        ({"type": "array", "items": {}}, "$.properties.a.items"),
        ({"type": "array", "items": TEXT, "uniqueItems": True}, "$.properties.a.uniqueItems"),
        ({"type": "object"}, "$.properties.a"),
        ({"type": "object", "properties": {}, "additionalProperties": True}, "$.properties.a.additionalProperties"),
        ({"type": "object", "properties": {}, "patternProperties": {}}, "$.properties.a.patternProperties"),
        ({"type": "object", "properties": {}, "required": ["b"]}, "$.properties.a.required"),
        ({"allOf": [TEXT, {"type": "string", "pattern": "x"}]}, "$.properties.a.allOf"),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "$.properties.a.oneOf"),
        ({"oneOf": [build_object(TEXT), build_object({"const": 1})]}, "$.properties.a.oneOf"),
        ({"type": "string", "anyOf": [TEXT]}, "$.properties.a.type"),
        ({"$ref": "#/properties/b"}, "$.properties.a.$ref"),
        ({"type": "string", "not": {"const": "x"}}, "$.properties.a.not"),
        ({"anyOf": [TEXT, {"type": "string", "maxLength": 3}]}, "$.properties.a.anyOf[1].maxLength"),
        ({"type": "object", "properties": {"a b": {}}}, '$.properties.a.properties["a b"]'),
    ],
)
def test_a_tool_that_strict_mode_cannot_express_is_reported_and_not_changed(subschema: Any, path: str) -> None:
    schema = build_object(subschema)
    export = export_schema(schema)
    assert [problem.path for problem in export.problems] == [path]
    assert export.tools[0]["strict"] is False
    assert list_functions(FORM, export.tools)["t"][1] == schema


@pytest.mark.parametrize("schema", [{}, {"type": "object"}])
def test_a_tool_that_accepts_any_arguments_is_not_strict(schema: Any) -> None:
    export = export_schema(schema)
    assert [problem.path for problem in export.problems] == ["$"]
    assert export.tools[0]["strict"] is False


def test_a_tool_without_arguments_is_strict() -> None:
    assert get_strict_schema({"type": "object", "properties": {}}) == {
        "type": "object",
        "properties": {},
        "required": [],
        **CLOSED,
    }


def make_nested(levels: int) -> dict[str, Any]:
    return build_object(make_nested(levels - 1)) if levels else TEXT


def make_properties(count: int) -> dict[str, Any]:
    return {"type": "object", "properties": {f"p{number}": TEXT for number in range(count)}}


def make_enum(count: int, width: int) -> dict[str, Any]:
    return build_object({"type": "string", "enum": [str(number).zfill(width) for number in range(count)]})


@pytest.mark.parametrize(
    ("fits", "exceeds", "text"),
    [
        (make_nested(10), make_nested(11), "11 levels of objects"),
        (make_properties(5_000), make_properties(5_001), "5001 properties"),
        (make_enum(1_000, 3), make_enum(1_001, 4), "1001 values of enums"),
        (make_enum(10, 11_999), make_enum(10, 12_001), "120011 characters of names and values"),
    ],
)  # fmt: skip
def test_a_schema_above_a_limit_is_reported(fits: Any, exceeds: Any, text: str) -> None:
    assert export_schema(fits).problems == ()
    export = export_schema(exceeds)
    (problem,) = export.problems
    assert problem.text.startswith(f"it has {text}, and strict mode accepts ")
    assert export.tools[0]["strict"] is False


@pytest.mark.parametrize(
    ("subschema", "value", "got"),
    [
        (TEXT, {"a": None}, {}),
        ({"type": ["string", "null"]}, {"a": None}, {"a": None}),
        ({"type": "object", "properties": {"b": TEXT}}, {"a": {"b": None}}, {"a": {}}),
        ({"type": "array", "items": {"$ref": "#"}}, {"a": [{"a": None}]}, {"a": [{}]}),
        ({"anyOf": [build_object(TEXT), {"type": "object", "properties": {"b": TEXT}}]}, {"a": {"b": None}}, {"a": {}}),
    ],
)
def test_null_for_an_optional_argument_is_removed(subschema: Any, value: Any, got: Any) -> None:
    assert read_arguments({"type": "object", "properties": {"a": subschema}}, value) == got


def test_null_for_a_required_argument_is_passed_to_the_tool() -> None:
    assert read_arguments(build_object(TEXT), {"a": None}) == {"a": None}


async def test_arguments_that_are_nested_without_end_are_rejected() -> None:
    deep: Any = None
    for _ in range(100_000):
        deep = {"a": deep}
    schema = {"type": "object", "properties": {"a": {"$ref": "#"}}}
    call = {"type": "function_call", "name": "t", "arguments": deep, "call_id": "1"}
    (result,) = await export_schema(schema).run(call)
    assert "nested deeper than 64 levels" in str(result["output"])


def test_alternatives_at_the_root_are_strict_in_the_argument_input() -> None:
    schema = {"anyOf": [build_object(TEXT), {"type": "object", "properties": {"b": TEXT}}]}
    export = export_schema({"type": "object", "properties": {}, **schema})
    # Strict mode does not allow `properties` together with `anyOf`.
    assert export.tools[0]["strict"] is False
    export = export_schema(schema)
    assert export.tools[0]["strict"] is True
    (call,) = export.calls(build_response(FORM, ("t", {"input": {"b": None}})))
    assert call.arguments == {}


def test_converting_recursive_alternatives_takes_linear_time() -> None:
    kinds = [
        {
            "type": "object",
            "properties": {"next": {"$ref": "#/$defs/any"}, "kind": {"const": key}},
            "required": ["kind"],
        }
        for key in "ab"
    ]
    schema = build_object({"$ref": "#/$defs/any"}, **{"$defs": {"any": {"oneOf": kinds}}})
    arguments: Any = None
    for _ in range(60):
        arguments = {"next": arguments, "kind": "b"}
    got = read_arguments(schema, {"a": arguments})
    assert str(got).count("kind") == 60
    assert "None" not in str(got)
    doubled = {f"d{at}": {"anyOf": [{"$ref": f"#/$defs/d{at + 1}"}] * 2} for at in range(60)} | {"d60": TEXT}
    assert get_strict_schema({"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": doubled})


PARTS = st.recursive(
    st.sampled_from(
        [
            TEXT,
            {"type": "integer"},
            {"type": ["number", "null"]},
            {"enum": ["a", 1]},
            {"const": "c"},
            {"type": "boolean", "default": True},
            {"$ref": "#/$defs/node"},
            {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}], "description": "Or none."},
            {"oneOf": [{"$ref": "#/$defs/node"}, build_object({"const": 2})]},
        ]
    ),
    lambda parts: (
        st.builds(lambda items: {"type": "array", "items": items}, parts)
        | st.dictionaries(st.sampled_from("abc"), parts, min_size=1, max_size=3).flatmap(
            lambda properties: st.sets(st.sampled_from(sorted(properties))).map(
                lambda required: {"type": "object", "properties": properties, "required": sorted(required)}
            )
        )
    ),
    max_leaves=8,
)
NODE = {"type": "object", "properties": {"a": {"const": 1}, "next": {"$ref": "#/$defs/node"}}, "required": ["a"]}
SCHEMAS = st.builds(
    lambda properties: {"type": "object", "properties": properties, "$defs": {"node": NODE}},
    st.dictionaries(st.sampled_from("abc"), PARTS, max_size=3),
)


def draw_pair(draw: Any, schema: Any, depth: int = 0) -> tuple[Any, Any]:
    """Draw a valid value in its strict form and in the form for the tool."""
    if "$ref" in schema:
        return draw_pair(draw, NODE, depth)
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return draw_pair(draw, draw(st.sampled_from(schema[word])), depth)
    if "enum" in schema or "const" in schema:
        value = draw(st.sampled_from(schema.get("enum") or [schema["const"]]))
        return value, value
    key = schema["type"] if isinstance(schema["type"], str) else draw(st.sampled_from(schema["type"]))
    if key == "array":
        items = [draw_pair(draw, schema["items"], depth + 1) for _ in range(draw(st.integers(0, 2)))]
        return [argument for argument, _ in items], [got for _, got in items]
    if key == "object":
        return draw_pairs(draw, schema, depth)
    value = {"string": "x", "integer": 3, "number": 1.5, "null": None, "boolean": False}[key]
    return value, value


def draw_pairs(draw: Any, schema: Any, depth: int) -> tuple[Any, Any]:
    arguments, got = {}, {}
    for name, subschema in schema["properties"].items():
        takes_null = subschema.get("type") == ["number", "null"] or "anyOf" in subschema
        if name in schema.get("required", ()) or takes_null or (depth < 4 and draw(st.booleans())):
            arguments[name], got[name] = draw_pair(draw, subschema, depth + 1)
        else:
            arguments[name] = None
    return arguments, got


@use_examples(30)
@given(SCHEMAS, st.data())
def test_valid_arguments_fit_the_strict_form_and_are_restored(schema: Any, data: Any) -> None:
    value = get_strict_schema(schema)
    arguments, got = draw_pair(data.draw, schema)
    jsonschema.Draft202012Validator.check_schema(value)
    jsonschema.Draft202012Validator(schema).validate(got)
    jsonschema.Draft202012Validator(value).validate(arguments)
    assert read_arguments(schema, arguments) == got


VALUES = st.recursive(
    st.sampled_from([None, "c", "a", 1, 2, True, 1.5]),
    lambda parts: st.lists(parts, max_size=2) | st.dictionaries(st.sampled_from(["a", "b", "next"]), parts, max_size=2),
    max_leaves=6,
)


@use_examples(30)
@given(SCHEMAS, st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3))
def test_arguments_that_fit_the_strict_form_fit_the_tool(schema: Any, value: dict[str, Any]) -> None:
    strict = get_strict_schema(schema)
    value = {**dict.fromkeys(strict["properties"]), **value}
    if jsonschema.Draft202012Validator(strict).is_valid(value):
        jsonschema.Draft202012Validator(schema).validate(read_arguments(schema, value))


def list_objects(schema: Any) -> list[dict[str, Any]]:
    """List all objects in a schema."""
    if isinstance(schema, list):
        return [result for subschema in schema for result in list_objects(subschema)]
    if not isinstance(schema, dict):
        return []
    result_list = [schema] if "object" in str(schema.get("type")) else []
    return result_list + [result for subschema in schema.values() for result in list_objects(subschema)]


@use_examples(30)
@given(SCHEMAS)
def test_strict_objects_are_closed_and_require_all_properties(schema: Any) -> None:
    for result in list_objects(get_strict_schema(schema)):
        assert result["additionalProperties"] is False
        assert sorted(result["required"]) == sorted(result["properties"])
