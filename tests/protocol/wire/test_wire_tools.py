"""A tool on the wire: its listing for each protocol version, and the way back from arguments to data."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from mcp.shared.exceptions import MCPError

from mcp_bridge import ToolResult
from mcp_bridge._contracts.errors import InvalidArguments
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall, ToolDefinition
from mcp_bridge._protocol.wire.client_names import to_client_name
from mcp_bridge._protocol.wire.schemas import can_be_null, can_be_object, is_always_object
from mcp_bridge._protocol.wire.tools import WireTool, to_mcp, to_wire
from tests.kits.constants import STATELESS
from tests.kits.wire.speaking import (
    EVERY_VERSION,
    NEWEST_HANDSHAKE,
    NOTHING,
    VERSIONS,
    build_registry,
    call,
    connect_with_version,
    get_text,
    make_constant_tool,
    make_entry,
    serialize_for_client,
)
from tests.kits.wire.speaking import list_tools as client_list


def make_definition(**fields: Any) -> ToolDefinition:
    """Return a tool named `t` with these fields."""
    return ToolDefinition("t", "", "m", **fields)


def render_listing(tool: WireTool, version: str) -> dict[str, Any]:
    """Return the listing of a tool for a version, checked against the schema of the version."""
    [listing] = serialize_for_client("tools/list", version, {"tools": [tool.render_listing(version)]})["tools"]
    return listing


POINT = {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}
SHAPES: dict[str, tuple[dict[str, Any], Any]] = {
    "object": (POINT, {"x": 1}),
    "object, as a list of types": ({**POINT, "type": ["object"]}, {"x": 1}),
    "object, without its type": ({"properties": POINT["properties"]}, {"x": 1}),
    "array": ({"type": "array", "items": {"type": "integer"}}, [1, 2]),
    "text": ({"type": "string"}, "hello"),
    "number": ({"type": "number"}, 2.5),
    "truth": ({"type": "boolean"}, False),
    "null": ({"type": "null"}, None),
    "a reference at the root": ({"$ref": "#/$defs/P", "$defs": {"P": POINT}}, {"x": 1}),
    "a reference to an array": ({"$ref": "#/$defs/L", "$defs": {"L": {"type": "array"}}}, [1]),
    "a tree that refers to itself": (
        {
            "$ref": "#/$defs/N",
            "$defs": {"N": {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/N"}, {}]}}}},
        },
        {"next": {"next": None}},
    ),
    "a list that refers to its root": (
        {"type": "array", "items": {"anyOf": [{"$ref": "#"}, {"type": "integer"}]}},
        [[1], 2],
    ),
    "a list with a reference inside itself": (
        {"type": "array", "prefixItems": [{"type": "integer"}, {"$ref": "#/prefixItems/0"}]},
        [1, 2],
    ),
    "an identified list": (
        {"$id": "urn:l", "type": "array", "items": {"$ref": "#/$defs/I"}, "$defs": {"I": {"type": "integer"}}},
        [3],
    ),
    "one of two objects": ({"anyOf": [POINT, {"type": "object", "required": ["y"]}]}, {"y": 1}),
    "an object or nothing": ({"anyOf": [POINT, {"type": "null"}]}, {"x": 1}),
    "nothing of an object or nothing": ({"anyOf": [POINT, {"type": "null"}]}, None),
    "an object or a list": ({"oneOf": [POINT, {"type": "array"}]}, [1]),
    "all of two objects": ({"allOf": [POINT, {"required": ["x"]}]}, {"x": 1}),
    "a constant": ({"const": "yes"}, "yes"),
    "a choice": ({"enum": ["a", None]}, None),
    "only words": ({"description": "whatever it is"}, [{"a": None}]),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_type_of_output_is_listed_and_rendered_for_each_version(shape: str) -> None:
    schema, answer = SHAPES[shape]
    tool = to_wire(make_definition(output_schema=copy.deepcopy(schema)))
    for version in VERSIONS:
        listing = render_listing(tool, version)
        result = serialize_for_client("tools/call", version, to_mcp(ToolResult(output=answer), tool, version))
        if version < "2025-06-18":
            assert "outputSchema" not in listing
            assert "structuredContent" not in result
            continue
        structured = result["structuredContent"]
        Draft202012Validator(listing["outputSchema"]).validate(structured)
        assert answer in (structured, structured.get("result", ...) if isinstance(structured, dict) else ...)
        if version != STATELESS:
            assert listing["outputSchema"]["type"] == "object"
            assert isinstance(structured, dict)


def test_only_handshake_versions_wrap_an_output_that_is_no_object() -> None:
    schema, answer = SHAPES["array"]
    tool = to_wire(make_definition(output_schema=schema))
    assert tool.render_listing(STATELESS)["outputSchema"] == schema
    assert to_mcp(ToolResult(output=answer), tool, STATELESS)["structuredContent"] == answer
    assert to_mcp(ToolResult(output=answer), tool, NEWEST_HANDSHAKE)["structuredContent"] == {"result": answer}


def test_an_undeclared_object_is_structured_content() -> None:
    tool = to_wire(make_definition())
    assert to_mcp(ToolResult(output={"a": 1}), tool, STATELESS)["structuredContent"] == {"a": 1}
    assert "structuredContent" not in to_mcp(ToolResult(output=[1]), tool, STATELESS)


@pytest.mark.parametrize(
    ("schema", "expected"), [({}, NOTHING), (True, NOTHING), (None, NOTHING), (False, {"type": "object", "not": {}})]
)
def test_an_empty_or_boolean_schema_is_listed_as_an_object(schema: Any, expected: Any) -> None:
    assert to_wire(make_definition(input_schema=schema)).input_schema == expected


# Input that is not an object


SCALARS: list[tuple[dict[str, Any], Any]] = [
    ({"type": "number"}, 2.5),
    ({"type": "string"}, ""),
    ({"type": "array"}, [1]),
    ({"type": ["string", "null"]}, None),
    ({"const": 3}, 3),
    ({"enum": ["a", "b"]}, "b"),
    ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, 4),
    ({"allOf": [{"type": "string"}, {}]}, "s"),
    ({"$ref": "#/$defs/S", "$defs": {"S": {"type": "string"}}}, "s"),
]


@pytest.mark.parametrize(("schema", "value"), SCALARS, ids=lambda field: str(field)[:40])
def test_an_input_that_is_no_object_is_wrapped_for_clients_and_unwrapped_for_the_handler(
    schema: dict[str, Any], value: Any
) -> None:
    tool = to_wire(make_definition(input_schema=schema))
    assert tool.input_schema["type"] == "object"
    assert tool.input_schema["required"] == ["input"]
    assert tool.read_arguments({"input": value}) == value


def test_a_missing_wrapped_input_and_additional_arguments_are_errors() -> None:
    tool = to_wire(make_definition(input_schema={"type": "number"}))
    for arguments, lines in (
        ({}, ["$.input: required field missing"]),
        ({"input": 1, "b": 2, "a": 3}, [f"$.{name}: additional property not allowed" for name in ("a", "b")]),
    ):
        with pytest.raises(InvalidArguments) as caught:
            tool.read_arguments(arguments)
        assert list(caught.value.details) == lines


def test_definitions_of_a_wrapped_schema_move_to_the_root_and_references_follow() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "array",
        "items": {"$ref": "#/$defs/I"},
        "contains": {"$ref": "#/items"},
        "$defs": {"I": {"type": "integer"}, "Root": {"$ref": "#"}},
    }
    new_schema = to_wire(ToolDefinition("t", "", "m", input_schema=schema)).input_schema
    assert new_schema["$schema"] == schema["$schema"]
    assert new_schema["properties"]["input"] == {
        "type": "array",
        "items": {"$ref": "#/$defs/I"},
        "contains": {"$ref": "#/properties/input/items"},
    }
    assert new_schema["$defs"] == {"I": {"type": "integer"}, "Root": {"$ref": "#/properties/input"}}


# What a schema takes


@pytest.mark.parametrize(
    ("schema", "object_fits", "null_fits", "only_objects"),
    [
        ({}, True, True, False),
        (True, True, True, False),
        (False, True, False, False),
        ({"type": ["object", "null"]}, True, True, False),
        ({"required": ["a"]}, True, False, False),
        ({"$ref": "https://elsewhere"}, True, True, False),
        ({"$ref": "#/$defs/none"}, True, True, False),
        ({"$ref": "#/a~1b/c~0d", "a/b": {"c~d": {"type": "string"}}}, False, False, False),
        ({"$ref": "#"}, True, True, False),
        ({"const": {"a": 1}}, True, False, True),
        ({"enum": [1, {}]}, True, False, False),
        ({"allOf": [{"type": "object"}, {"type": "string"}]}, False, False, True),
        ({"oneOf": [{"type": "object"}, {"$ref": "#/$defs/O"}], "$defs": {"O": {"type": "object"}}}, True, False, True),
        ({"anyOf": []}, True, True, False),
    ],
    ids=str,
)
def test_the_types_of_a_schema_are_found(schema: Any, object_fits: bool, null_fits: bool, only_objects: bool) -> None:
    assert (can_be_object(schema), can_be_null(schema), is_always_object(schema)) == (
        object_fits,
        null_fits,
        only_objects,
    )


def test_the_types_of_a_recursive_schema_are_found_quickly() -> None:
    branches = [{"$ref": "#/$defs/a"}] * 20
    schema = {"$ref": "#/$defs/a", "$defs": {"a": {"allOf": branches}}}
    assert can_be_object(schema)
    assert not is_always_object(schema)


# Odd tools


def make_cycle() -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    schema["properties"] = {"self": schema, "list": [schema, schema]}
    schema["allOf"] = [schema, schema, schema]
    return schema


class Rude:
    def __str__(self) -> str:
        raise RuntimeError("do not ask")


ODD: dict[str, dict[str, Any]] = {
    "icons of wrong kinds": {"icons": [1, None, {}, {"src": 3}, {"src": "http://a"}, {"src": "file:///etc/passwd"}]},
    "icons with odd parts": {"icons": [{"src": "https://\ud800", "mimeType": 3, "theme": "purple", "sizes": "big"}]},
    "annotations of wrong types": {"annotations": {"readOnlyHint": "yes", "title": 3, "priority": 1}},
    "a title that is none": {"title": 3},
    "surrogates in the title": {"title": "\ud800", "annotations": {"title": "\udfff"}},
    "surrogates in tags": {"tags": ["\ud800", 3, "good"]},
    "meta that contains itself": {"meta": make_cycle()},
    "meta that cannot be read": {"meta": {"a": Rude()}},
    "meta of odd values": {"meta": {1: {2}, "d": b"x", "n": float("nan")}},
    "an input schema that contains itself": {"input_schema": make_cycle()},
    "an output schema that contains itself": {"output_schema": make_cycle()},
    "an input schema that cannot be read": {"input_schema": {"type": "object", "default": Rude()}},
    "properties that are a list": {"input_schema": {"type": "object", "properties": [1]}},
    "a property that is a number": {"input_schema": {"type": "object", "properties": {"a": 1, "b": True}}},
    "a required that is text": {"input_schema": {"type": "object", "required": "a"}},
    "required numbers": {"output_schema": {"type": "object", "required": [1]}},
    "a $schema that is a number": {"input_schema": {"$schema": 4}, "output_schema": {"$schema": 4, "type": "object"}},
    "a schema of sets and bytes": {"input_schema": {"type": "object", "examples": {1, 2}, "default": b"x"}},
    "a schema with NaN": {"input_schema": {"type": "object", "default": float("nan")}},
    "surrogates in a schema": {"input_schema": {"type": "object", "description": "\ud800"}},
    "a schema that is text": {"input_schema": "object", "output_schema": "object"},
    "a schema that is true": {"input_schema": True, "output_schema": True},
}


@pytest.mark.parametrize("oddity", ODD)
async def test_a_malformed_tool_never_breaks_the_list_and_can_be_called(oddity: str) -> None:
    entry = make_constant_tool({"fine": True}, **ODD[oddity])
    tool = to_wire(entry.to_tool_definition())
    for version in VERSIONS:
        render_listing(tool, version)
    arguments = tool.read_arguments({"input": 1} if tool.wraps_input else {})
    result = await build_registry(entry).dispatch(ToolCall(id="1", name="t", arguments=arguments), RunningCall())
    assert not result.is_error
    serialize_for_client("tools/call", STATELESS, to_mcp(result, tool, STATELESS))


@pytest.mark.parametrize(
    "description", [None, 3, Rude(), "a \ud800 b", b"bytes"], ids=lambda value: type(value).__name__
)
def test_a_description_that_is_no_text_is_left_out(description: Any) -> None:
    shown_description = render_listing(to_wire(ToolDefinition("t", description, "m")), STATELESS)["description"]
    assert shown_description == ("a \ufffd b" if isinstance(description, str) else "")


def test_the_valid_fields_of_a_malformed_tool_are_kept() -> None:
    good = make_definition(
        title="A title",
        tags=["a", "b"],
        annotations={"readOnlyHint": True, "openWorldHint": 0, "title": "Hint", "mine": 1},
        icons=[
            {"src": "https://a/i.png", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark", "mine": 1},
            {"src": "ftp://a"},
            {"src": "data:image/png;base64,AA=="},
        ],
        meta={"vendor/x": {"a": (1, 2)}},
    )
    tool = render_listing(to_wire(good), STATELESS)
    assert tool["title"] == "A title"
    assert tool["annotations"] == {"readOnlyHint": True, "title": "Hint"}
    assert tool["icons"] == [
        {"src": "https://a/i.png", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark"},
        {"src": "data:image/png;base64,AA=="},
    ]
    assert tool["_meta"] == {"vendor/x": {"a": [1, 2]}, "mcp-bridge/tags": ["a", "b"]}


@EVERY_VERSION
def test_a_version_receives_only_its_own_fields(version: str) -> None:
    tool = to_wire(
        ToolDefinition(
            "t", "", "m", NOTHING, POINT, ["tag"],
            title="T", annotations={"readOnlyHint": True}, icons=[{"src": "https://a"}], meta={"a/b": 1},
        )
    )  # fmt: skip
    listing = tool.render_listing(version)
    assert tool.render_listing(version) is listing
    since = {"annotations": "2025-03-26", "title": "2025-06-18", "outputSchema": "2025-06-18", "_meta": "2025-06-18"}
    since["icons"] = NEWEST_HANDSHAKE
    assert {field for field in since if field in listing} == {
        field for field, first in since.items() if version >= first
    }


# Names


@pytest.mark.parametrize("name", ["a", "A-b_9", "x" * 64])
def test_a_safe_name_is_unchanged(name: str) -> None:
    assert to_client_name(name) == name


@pytest.mark.parametrize("name", ["", "fs.read", "a b", "naïve", "x" * 65, "a/b", "a\n", "\ud800", "🔧"])
def test_an_unsafe_name_becomes_a_safe_one_and_the_original_is_in_meta(name: str) -> None:
    tool = render_listing(to_wire(ToolDefinition(name, "", "m")), STATELESS)
    assert to_client_name(tool["name"]) == tool["name"]
    assert 0 < len(tool["name"]) <= 64
    assert tool["_meta"]["mcp-bridge/name"] == name.replace("\ud800", "\ufffd")


def test_names_with_the_same_safe_form_stay_distinct() -> None:
    names = ["a.b", "a b", "a/b", "x" * 70, "x" * 71]
    assert len({to_client_name(name) for name in names}) == len(names)


# The official client


@EVERY_VERSION
async def test_the_official_client_of_every_version_lists_and_calls_valid_and_malformed_tools(version: str) -> None:
    calls: list[Any] = []
    registry = build_registry(
        make_constant_tool([1, 2], output_schema={"type": "array"}),
        make_entry(calls.append, "number", input_schema={"type": "number"}),
        make_entry(lambda data: "odd", "a b", icons=[1], meta={"a": Rude()}, output_schema={"required": [1]}),
        make_entry(lambda data: "good", "good", input_schema={"type": "object", "properties": [1]}),
    )
    async with connect_with_version(registry, version) as client:
        tools = await client_list(client)
        assert len(tools) == 4
        # The client checks the result against the listed schema.
        plain = await call(client)
        assert plain.get("structuredContent") == (
            None if version < "2025-06-18" else [1, 2] if version == STATELESS else {"result": [1, 2]}
        )
        assert not (await call(client, "number", input=2.5))["isError"]
        wrong, company = await call(client, "number", input="x"), await call(client, "number", input=1, b=2)
        assert "expected type number" in get_text(wrong)
        assert "- $.b: additional property not allowed" in get_text(company)
        [odd] = [tool["name"] for tool in tools if tool["name"] not in ("t", "number", "good")]
        assert (get_text(await call(client, odd)), get_text(await call(client, "good"))) == ("odd", "good")
        with pytest.raises(MCPError):
            await client.call_tool("a b", {})
    assert calls == [2.5]


def test_output_schemas_of_all_sources_have_only_common_formats() -> None:
    time = {"type": "string", "format": "date-time"}
    schema = {
        "type": "object",
        "properties": {
            "format": {"type": "string", "enum": ["date"]},
            "day": {"type": "string", "format": "date"},
            "times": {"type": "array", "items": {"anyOf": [time, {"type": "null"}]}},
        },
    }
    tool = to_wire(ToolDefinition("times", "Times.", "times", {"type": "object"} | schema, schema))
    for version in VERSIONS:
        assert "'format': 'date-time'" in str(tool.render_listing(version)["inputSchema"])
    properties = tool.render_listing(STATELESS)["outputSchema"]["properties"]
    assert properties["format"] == {"type": "string", "enum": ["date"]}
    assert properties["day"] == {"type": "string", "format": "date"}
    assert properties["times"]["items"]["anyOf"] == [{"type": "string"}, {"type": "null"}]
