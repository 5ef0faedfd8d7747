"""A tool on the wire: its listing for each protocol version, and the way back from arguments to data."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from mcp_bridge import ToolEntry, ToolRegistry
from mcp_bridge.contracts.tool import ToolDefinition
from mcp_bridge.testing import connect
from mcp_bridge.wire.names import client_name
from mcp_bridge.wire.schemas import always_object, takes_null, takes_object
from mcp_bridge.wire.tools import to_wire
from tests.kits.wire.speaking import (
    ERAS,
    EVERY_VERSION,
    NEWEST_HANDSHAKE,
    NOTHING,
    STATELESS,
    answering,
    call,
    entry_of,
    listed,
    registry_of,
    speaking,
    words,
)

OBJECT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
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


@EVERY_VERSION
@pytest.mark.parametrize("shape", SHAPES)
async def test_every_shape_of_answer_reaches_every_client_whole(shape: str, version: str) -> None:
    schema, answer = SHAPES[shape]
    async with speaking(registry_of(answering(answer, output_schema=copy.deepcopy(schema))), version) as client:
        [tool] = await listed(client)
        result = await call(client)  # the official client checks it against the schema that was listed
    assert not result["isError"]
    if version < "2025-06-18":
        assert "outputSchema" not in tool
        assert "structuredContent" not in result
        return
    structured = result["structuredContent"]
    assert answer in (structured, structured.get("result", ...) if isinstance(structured, dict) else ...)
    if version != STATELESS:
        assert tool["outputSchema"]["type"] == "object"
        assert isinstance(structured, dict)


@pytest.mark.parametrize("shape", ["array", "text", "number", "truth", "a constant", "a reference to an array"])
async def test_only_a_client_of_the_handshake_sees_a_plain_answer_wrapped(shape: str) -> None:
    schema, answer = SHAPES[shape]
    registry = registry_of(answering(answer, output_schema=schema))
    async with speaking(registry, STATELESS) as client:
        assert (await listed(client))[0]["outputSchema"] == schema
        assert (await call(client))["structuredContent"] == answer
    async with speaking(registry, NEWEST_HANDSHAKE) as client:
        assert (await call(client))["structuredContent"] == {"result": answer}


@ERAS
async def test_an_answer_that_is_an_object_is_structured_without_being_declared(mode: str) -> None:
    async with connect(registry_of(answering({"a": 1}), entry_of(lambda data: [1], "u")), mode=mode) as client:
        assert (await call(client))["structuredContent"] == {"a": 1}
        assert "structuredContent" not in await call(client, "u")


@ERAS
async def test_an_empty_schema_is_listed_as_an_object_and_takes_anything(mode: str) -> None:
    async with connect(registry_of(entry_of(lambda data: data)), mode=mode) as client:
        assert (await listed(client))[0]["inputSchema"] == {"type": "object"}
        assert (await call(client, a=[1]))["structuredContent"] == {"a": [1]}


@pytest.mark.parametrize(
    ("schema", "expected"), [(True, NOTHING), (None, NOTHING), (False, {"type": "object", "not": {}})]
)
@ERAS
async def test_a_schema_that_is_a_truth_value_is_listed_as_an_object(schema: Any, expected: Any, mode: str) -> None:
    async with connect(registry_of(answering(1, input_schema=schema)), mode=mode) as client:
        assert (await listed(client))[0]["inputSchema"] == expected


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


@ERAS
@pytest.mark.parametrize(("schema", "value"), SCALARS, ids=lambda part: str(part)[:40])
async def test_a_plain_input_is_the_argument_named_input_and_the_handler_gets_it_bare(
    schema: dict[str, Any], value: Any, mode: str
) -> None:
    seen: list[Any] = []
    async with connect(registry_of(entry_of(seen.append, input_schema=schema)), mode=mode) as client:
        listing = (await listed(client))[0]["inputSchema"]
        assert listing["type"] == "object"
        assert listing["required"] == ["input"]
        assert not (await call(client, input=value))["isError"]
    assert seen == [value]


@ERAS
async def test_a_plain_input_that_is_missing_or_has_company_is_named(mode: str) -> None:
    registry = registry_of(entry_of(lambda number: number, input_schema={"type": "number"}))
    async with connect(registry, mode=mode) as client:
        missing, company, wrong = (
            await call(client),
            await call(client, input=1, b=2, a=3),
            await call(client, input="x"),
        )
    assert "$.input: required field missing" in words(missing)
    assert words(company).splitlines()[1:] == [
        "- $.a: additional property not allowed",
        "- $.b: additional property not allowed",
    ]
    assert "expected type number" in words(wrong)
    assert all(result["isError"] for result in (missing, company, wrong))


def test_definitions_of_a_wrapped_schema_move_to_the_root_and_references_follow() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "array",
        "items": {"$ref": "#/$defs/I"},
        "contains": {"$ref": "#/items"},
        "$defs": {"I": {"type": "integer"}, "Root": {"$ref": "#"}},
    }
    made = to_wire(ToolDefinition("t", "", "m", input_schema=schema)).input_schema
    assert made["$schema"] == schema["$schema"]
    assert made["properties"]["input"] == {
        "type": "array",
        "items": {"$ref": "#/$defs/I"},
        "contains": {"$ref": "#/properties/input/items"},
    }
    assert made["$defs"] == {"I": {"type": "integer"}, "Root": {"$ref": "#/properties/input"}}


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
        ({"const": {"a": 1}}, True, False, False),
        ({"enum": [1, {}]}, True, False, False),
        ({"allOf": [{"type": "object"}, {"type": "string"}]}, False, False, True),
        ({"oneOf": [{"type": "object"}, {"$ref": "#/$defs/O"}], "$defs": {"O": {"type": "object"}}}, True, False, True),
        ({"anyOf": []}, True, True, False),
    ],
    ids=str,
)
def test_what_fits_a_schema_is_read_from_it(
    schema: Any, object_fits: bool, null_fits: bool, only_objects: bool
) -> None:
    assert (takes_object(schema), takes_null(schema), always_object(schema)) == (object_fits, null_fits, only_objects)


def test_a_schema_that_branches_into_itself_is_read_at_once() -> None:
    branches = [{"$ref": "#/$defs/a"}] * 20
    schema = {"$ref": "#/$defs/a", "$defs": {"a": {"allOf": branches}}}
    assert takes_object(schema)
    assert not always_object(schema)


# Odd tools


def cycle() -> dict[str, Any]:
    made: dict[str, Any] = {"type": "object"}
    made["properties"] = {"self": made, "list": [made, made]}
    made["allOf"] = [made, made, made]
    return made


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
    "meta that contains itself": {"meta": cycle()},
    "meta that cannot be read": {"meta": {"a": Rude()}},
    "meta of odd values": {"meta": {1: {2}, "d": b"x", "n": float("nan")}},
    "an input schema that contains itself": {"input_schema": cycle()},
    "an output schema that contains itself": {"output_schema": cycle()},
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


@EVERY_VERSION
@pytest.mark.parametrize("oddity", ODD)
async def test_an_odd_tool_never_spoils_the_list_and_can_be_called(oddity: str, version: str) -> None:
    registry = registry_of(answering({"fine": True}, **ODD[oddity]), entry_of(lambda data: "good", "good"))
    async with speaking(registry, version) as client:
        tools = {tool["name"]: tool for tool in await listed(client)}
        arguments = {"input": 1} if "input" in tools["t"]["inputSchema"].get("properties", {}) else {}
        assert not (await call(client, "t", **arguments))["isError"]
        assert words(await call(client, "good")) == "good"
    assert set(tools) == {"t", "good"}


@EVERY_VERSION
@pytest.mark.parametrize(
    "description", [None, 3, Rude(), "a \ud800 b", b"bytes"], ids=lambda value: type(value).__name__
)
async def test_a_description_that_is_no_text_is_left_out(description: Any, version: str) -> None:
    registry = registry_of(ToolEntry("t", description, lambda data: 1))
    async with speaking(registry, version) as client:
        [tool] = await listed(client)
    assert tool["description"] == ("a \ufffd b" if isinstance(description, str) else "")


async def test_what_is_good_about_an_odd_tool_is_kept() -> None:
    entry = answering(
        1,
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
    async with speaking(registry_of(entry), STATELESS) as client:
        [tool] = await listed(client)
    assert tool["title"] == "A title"
    assert tool["annotations"] == {"readOnlyHint": True, "title": "Hint"}
    assert tool["icons"] == [
        {"src": "https://a/i.png", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark"},
        {"src": "data:image/png;base64,AA=="},
    ]
    assert tool["_meta"] == {"vendor/x": {"a": [1, 2]}, "mcp-bridge/tags": ["a", "b"]}


@EVERY_VERSION
async def test_a_version_is_told_only_what_it_knows(version: str) -> None:
    definition = ToolDefinition(
        "t", "", "m", NOTHING, POINT, ["tag"],
        title="T", annotations={"readOnlyHint": True}, icons=[{"src": "https://a"}], meta={"a/b": 1},
    )  # fmt: skip
    tool = to_wire(definition)
    listing = tool.listing(version)
    assert tool.listing(version) is listing
    since = {"annotations": "2025-03-26", "title": "2025-06-18", "outputSchema": "2025-06-18", "_meta": "2025-06-18"}
    since["icons"] = NEWEST_HANDSHAKE
    assert {part for part in since if part in listing} == {part for part, first in since.items() if version >= first}


# Names


@pytest.mark.parametrize("name", ["a", "A-b_9", "x" * 64])
def test_a_safe_name_stays(name: str) -> None:
    assert client_name(name) == name


@pytest.mark.parametrize(
    "name", ["", "fs.read", "a b", "naïve", "工具", "x" * 65, "x" * 100, "a/b", "a\n", "\ud800", "🔧"]
)
@ERAS
async def test_any_other_name_becomes_a_safe_one_and_the_original_stays_in_meta(name: str, mode: str) -> None:
    registry = ToolRegistry()
    registry.register(ToolEntry(name, "", lambda data: name.encode("utf-8", "replace").decode()))
    async with connect(registry, mode=mode) as client:
        [tool] = await listed(client)
        assert words(await call(client, tool["name"])) == name.encode("utf-8", "replace").decode()
        if name.isprintable():  # the client itself refuses to send some of the others
            with pytest.raises(MCPError):
                await client.call_tool(name, {})
    assert client_name(tool["name"]) == tool["name"]
    assert 0 < len(tool["name"]) <= 64
    assert tool["_meta"]["mcp-bridge/name"] == name.replace("\ud800", "\ufffd")


@ERAS
async def test_names_that_come_out_alike_are_told_apart(mode: str) -> None:
    names = ["a.b", "a b", "a/b", "x" * 70, "x" * 71]
    registry = registry_of(*(entry_of(lambda data, name=name: name, name) for name in names))
    async with connect(registry, mode=mode) as client:
        answers = [words(await call(client, tool["name"])) for tool in await listed(client)]
    assert sorted(answers) == sorted(names)
