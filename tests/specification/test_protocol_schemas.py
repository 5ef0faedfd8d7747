"""JSON Schema, as the protocol wants it used."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge import ToolEntry
from mcp_bridge._app.bridge import AttachedSource, Bridge
from mcp_bridge._contracts.source import Source
from mcp_bridge._sources.python import PythonSource
from mcp_bridge.sources import Offer
from tests.client.raw_client import Json
from tests.kits.protocol.protocol_manifest import proves
from tests.kits.protocol.protocol_ways import Connected

PAIR_2020: Json = {
    "type": "object",
    "properties": {"pair": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False}},
    "dependentRequired": {"pair": ["why"]},
}
PAIR_DRAFT_7: Json = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {
        "pair": {"type": "array", "items": [{"$ref": "#/definitions/n"}, {"type": "string"}], "additionalItems": False}
    },
    "definitions": {"n": {"type": "integer"}},
    "dependencies": {"pair": ["why"]},
}


def offer(connected: Connected, name: str, schema: Json, **options: Any) -> None:
    """Add a tool with this input schema."""
    connected.bridge.registry.register(ToolEntry(name, "Has a schema.", lambda data: "ran", schema, **options))


@proves("base/schema-2020-12", "base/schema-dialect")
@pytest.mark.parametrize("schema", [PAIR_2020, PAIR_DRAFT_7], ids=["2020-12", "draft-07"])
async def test_a_schema_is_validated_in_its_own_dialect(connected: Connected, schema: Json) -> None:
    offer(connected, "pair", schema)
    async with connected.raw_client() as raw:
        tools = {tool["name"]: tool for tool in (await raw.get_result("tools/list"))["tools"]}
        assert tools["pair"]["inputSchema"] == schema
        assert "isError" not in await raw.call("pair", {"pair": [1, "x"], "why": 0})
        for wrong in ([], ["x", 1]), ([1, "x", 2]):
            assert (await raw.call("pair", {"pair": wrong, "why": 0})).get("isError"), wrong
        assert (await raw.call("pair", {"pair": [1, "x"]}))["isError"]


@proves("base/schema-unknown-dialect")
async def test_an_unknown_dialect_is_an_error_and_affects_nothing_else(connected: Connected) -> None:
    offer(connected, "strange", {"$schema": "https://example.com/dialect", "type": "object"})
    async with connected.raw_client() as raw:
        assert "echo" in {tool["name"] for tool in (await raw.get_result("tools/list"))["tools"]}
        answer = await raw.call("strange")
        assert answer["isError"] is True
        assert "https://example.com/dialect" in answer["content"][0]["text"]
        assert "isError" not in await raw.call("echo", {"text": "hi"})


@proves("base/schema-unknown-dialect")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_an_authors_unknown_dialect_is_reported_and_not_published(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(
        "from mcp_bridge import tool\n"
        "@tool(input_schema={'$schema': 'https://example.com/dialect', 'type': 'object'})\n"
        "def strange(data):\n    'Has one.'\n"
        "@tool\n"
        "def plain():\n    'Has none.'\n"
    )
    bridge = Bridge(sources=[AttachedSource(source=PythonSource("strange", path=tmp_path / "tools.py"))])
    async with bridge.run_sources():
        await bridge.wait_until_started()
        assert bridge.registry.list_names() == ["plain"]
        (problem,) = bridge.problems["strange"]
        assert "https://example.com/dialect" in problem


@proves("base/schema-unknown-dialect")
async def test_an_unknown_dialect_of_a_third_party_is_reported_and_left_out() -> None:
    class Fixed(Source):
        async def run(self, publish: Any) -> None:
            schema = {"$schema": "https://example.com/dialect", "type": "object"}
            publish(Offer(tools=[ToolEntry("strange", "Has one.", lambda data: 1, schema)]))

    bridge = Bridge(sources=[AttachedSource(source=Fixed("strange"))])
    async with bridge.run_sources():
        await bridge.wait_until_started()
        (entry,) = bridge.registry.list()
        assert "$schema" not in entry.input_schema
        (note,) = bridge.notes["strange"]
        assert "https://example.com/dialect" in note


@proves("base/schema-no-network")
async def test_a_reference_to_the_network_is_not_followed(connected: Connected) -> None:
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        elsewhere.setblocking(False)
        url = f"http://127.0.0.1:{elsewhere.getsockname()[1]}/schema.json"
        offer(connected, "remote", {"type": "object", "properties": {"a": {"$ref": url}}})
        offer(connected, "whole", {"$ref": url})
        async with connected.raw_client() as raw:
            await raw.get_result("tools/list")
            for tool, arguments in (("remote", {"a": 1}), ("whole", {})):
                await raw.call(tool, arguments)
        # No client has connected.
        with pytest.raises(BlockingIOError):
            elsewhere.accept()


@proves("base/schema-unresolved")
async def test_a_reference_that_is_not_resolved_is_not_taken_for_a_yes(connected: Connected) -> None:
    offer(connected, "remote", {"type": "object", "properties": {"a": {"$ref": "https://example.com/schema.json"}}})
    async with connected.raw_client() as raw:
        assert (await raw.call("remote", {"a": 1}))["isError"] is True


@proves("base/schema-bounds")
@pytest.mark.parametrize("name", ["pattern", "deep", "tree", "wide"])
async def test_a_costly_schema_or_value_does_not_hold_the_server_up(connected: Connected, name: str) -> None:
    schema, value = COSTLY[name]
    offer(connected, name, schema)
    async with connected.raw_client() as raw:
        await raw.call(name, {"a": value})
        assert "isError" not in await raw.call("echo", {"text": "hi"})


def nest(value: Any, depth: int) -> Any:
    """Return a value with this depth."""
    for _ in range(depth):
        value = {"a": value}
    return value


def make_doubling_definitions(steps: int) -> Json:
    """Return definitions with two references each to the one before."""
    definitions: Json = {"s0": {"type": "string"}}
    for step in range(steps):
        definitions[f"s{step + 1}"] = {"anyOf": [{"$ref": f"#/$defs/s{step}"}, {"$ref": f"#/$defs/s{step}"}]}
    return definitions


NODE: Json = {"type": "object", "properties": {"a": {"$ref": "#/$defs/either"}}}
COSTLY: dict[str, tuple[Json, Any]] = {
    "pattern": (
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(([a-z])+.)+[A-Z]([a-z])+$"}}},
        "a" * 50_000,
    ),
    "deep": (nest({"type": "object"}, 2_000), nest(1, 2_000)),
    "tree": (
        {
            **NODE,
            "$defs": {"either": {"anyOf": [{**NODE, "required": ["x"]}, {**NODE, "required": ["y"]}, {"const": 1}]}},
        },
        nest("neither", 60),
    ),
    "wide": (
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/s60"}}, "$defs": make_doubling_definitions(60)},
        1,
    ),
}
"""Schemas, and values that do not fit them: where the cost doubles with each level, a call never ends."""
