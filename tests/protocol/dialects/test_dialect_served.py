"""A dialect on the wire: the view of clients, tools and policies, in both eras and over every transport."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, get_default_environment, stdio_client
from mcp.shared.inbound import x_mcp_header_map

from mcp_bridge import CallContext, ToolCall, ToolEntry, ToolRegistry, ToolResult
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._contracts.tool import ToolDefinition
from mcp_bridge._protocol.dialects.dialect import SchemaDialect
from mcp_bridge._protocol.dialects.rewriting import CONDITIONS_NOTE, rewrite_tool
from mcp_bridge._protocol.wire.tools import to_wire
from mcp_bridge._server.tools.methods import ToolIndex
from mcp_bridge.middleware import Pipeline, Stage
from mcp_bridge.testing import connect
from tests.kits.constants import TIMEOUT
from tests.kits.dialects.dialect_kit import (
    ADDRESS,
    FULL_DIALECT,
    REFERRING,
    SHAPES,
    VALUES,
    build_bridge,
    build_registry,
)

ERAS = pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])


async def get_listed_tool(client: Client) -> dict[str, Any]:
    """Return the only listed tool as JSON."""
    [tool] = (await client.list_tools()).tools
    listing: dict[str, Any] = tool.model_dump(mode="json", by_alias=True, exclude_none=True)
    return listing


async def call_tool(client: Client, **arguments: Any) -> Any:
    """Return the result of a call: its JSON, or the text of an error."""
    result = await client.call_tool("t", arguments)
    [block] = result.content
    return block.text if result.is_error else json.loads(block.text)


async def test_clients_receive_a_schema_without_references() -> None:
    async with connect(build_bridge(REFERRING)) as client:
        tool = await get_listed_tool(client)
        assert tool["inputSchema"]["properties"]["home"] == ADDRESS
        assert "$ref" not in json.dumps(tool)
        assert await call_tool(client, home={"street": "A"}) == {"home": {"street": "A"}}


async def test_clients_receive_one_object_and_a_note_about_further_conditions() -> None:
    async with connect(build_bridge(SHAPES)) as client:
        tool = await get_listed_tool(client)
        assert tool["inputSchema"]["required"] == ["kind"]
        assert tool["description"] == f"Does it.\n\n{CONDITIONS_NOTE}"


@ERAS
async def test_the_original_schema_is_the_one_that_validates(mode: str) -> None:
    async with connect(build_bridge(SHAPES), mode=mode) as client:
        assert await call_tool(client, kind="circle", radius=2) == {"kind": "circle", "radius": 2}
        result = await client.call_tool("t", {"kind": "circle", "side": 2})
        assert result.is_error
        assert (result.meta or {})["mcp-bridge/code"] == "invalid_arguments"


async def test_tools_receive_the_parsed_values_of_strings() -> None:
    async with connect(build_bridge(VALUES)) as client:
        answer = await call_tool(client, numbers="[1, 2]", place='{"x": "3"}', note="[1]")
        assert answer == {"numbers": [1, 2], "place": {"x": 3}, "note": "[1]"}
        assert "$.count" in await call_tool(client, count="many")


async def test_without_the_setting_strings_stay_strings_and_schemas_as_they_are() -> None:
    async with connect(build_bridge(VALUES, SchemaDialect())) as client:
        assert "$.numbers" in await call_tool(client, numbers="[1, 2]")
    async with connect(build_bridge(REFERRING, SchemaDialect())) as client:
        assert (await get_listed_tool(client))["inputSchema"] == REFERRING


async def test_an_input_that_is_no_object_is_parsed_too() -> None:
    schema = {"type": "array", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "integer"}}}
    async with connect(build_bridge(schema)) as client:
        tool = await get_listed_tool(client)
        assert tool["inputSchema"]["properties"]["input"] == {"type": "array", "items": {"type": "integer"}}
        assert await call_tool(client, input='[1, "2"]') == [1, 2]


async def test_policies_see_the_arguments_that_run() -> None:
    received_arguments: list[Any] = []

    class Seeing:
        stage = Stage.DECIDE

        async def __call__(self, call: ToolCall, ctx: CallContext, call_next: Any) -> ToolResult:
            received_arguments.append(call.arguments)
            result: ToolResult = await call_next(call, ctx)
            return result

    registry = ToolRegistry(pipeline=Pipeline([Seeing()]))
    registry.register(ToolEntry("t", "", json.dumps, VALUES))
    async with connect(Bridge(registry, dialect=FULL_DIALECT)) as client:
        await call_tool(client, numbers="[1]")
    assert received_arguments == [{"numbers": [1]}]


async def test_a_value_in_a_string_counts_against_the_limits_of_arguments() -> None:
    schema = {"type": "object", "properties": {"list": {"type": "array"}}}
    async with connect(build_bridge(schema)) as client:
        deep: Any = []
        for _ in range(100):
            deep = [deep]
        assert "nested deeper than 64 levels" in await call_tool(client, list=json.dumps(deep))


async def test_declared_headers_are_kept_in_rewritten_schemas() -> None:
    async with connect(build_bridge(SHAPES)) as client:
        assert x_mcp_header_map((await get_listed_tool(client))["inputSchema"]) == {("region",): "Region"}


async def test_references_are_inlined_in_output_schemas_and_results_still_fit() -> None:
    output = {"type": "object", "properties": {"home": {"$ref": "#/$defs/A"}}, "$defs": {"A": ADDRESS}}
    registry = ToolRegistry()
    registry.register(ToolEntry("t", "", lambda data: {"home": {"street": "A"}}, {"type": "object"}, output))
    async with connect(Bridge(registry, dialect=FULL_DIALECT)) as client:
        assert (await get_listed_tool(client))["outputSchema"]["properties"]["home"] == ADDRESS
        result = await client.call_tool("t", {})
        assert result.structured_content == {"home": {"street": "A"}}


async def test_an_object_without_properties_gets_empty_properties() -> None:
    schema = {"type": "object", "additionalProperties": False}
    async with connect(build_bridge(schema, SchemaDialect(write_properties=True))) as client:
        assert (await get_listed_tool(client))["inputSchema"] == {**schema, "properties": {}}


def test_a_tool_is_rewritten_once_until_it_changes() -> None:
    registry = build_registry(REFERRING)
    listing = ToolIndex(registry, page=10, dialect=FULL_DIALECT)
    before = listing.get("t")
    registry.register(ToolEntry("other", "", json.dumps, {"type": "object"}))
    assert listing.get("t") is before


def test_a_dialect_without_changes_costs_a_call_nothing() -> None:
    tool = to_wire(ToolDefinition("t", "", "m", REFERRING))
    assert tool.repair is None
    arguments: dict[str, Any] = {"home": {}}
    assert tool.read_arguments(arguments) is arguments
    assert rewrite_tool(tool, SchemaDialect(inline_references=True)).repair is None


TOOLS = """
from typing import Literal

from pydantic import BaseModel

from mcp_bridge import tool


class Line(BaseModel):
    product: str
    amount: int


@tool
def order(lines: list[Line], express: bool = False) -> str:
    "Order something."
    return f"{sum(line.amount for line in lines)} {express}"
"""
SETTINGS = """
dialect: [gemini-cli, claude-code]
sources: [{type: python, path: tools.py}]
"""


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "settings.yaml").write_text(SETTINGS)
    return tmp_path / "settings.yaml"


@contextlib.asynccontextmanager
async def connect_over_stdio(settings: Path) -> AsyncIterator[Client]:
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "mcp_bridge", "serve", str(settings)],
        env={**get_default_environment(), **{key: value for key, value in os.environ.items() if "COV" in key}},
        cwd=settings.parent,
    )
    with anyio.fail_after(TIMEOUT):
        async with Client(stdio_client(server)) as client:
            yield client


async def test_a_client_over_stdio_receives_the_dialect_of_the_settings(settings: Path) -> None:
    async with connect_over_stdio(settings) as client:
        tool = await get_listed_tool(client)
        assert tool["inputSchema"]["properties"]["lines"]["items"]["properties"]["amount"]["type"] == "integer"
        assert "$defs" not in tool["inputSchema"]
        lines = json.dumps([{"product": "pen", "amount": "2"}, {"product": "ink", "amount": 3}])
        result = await client.call_tool("order", {"lines": lines, "express": "true"})
        assert result.content[0].text == "5 True"
