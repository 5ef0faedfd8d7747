"""A large result is truncated and marked, and its remainder can be read for a while."""

from __future__ import annotations

import re
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from mcp_bridge import Image, Text, ToolEntry, ToolError, ToolRegistry
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._contracts.identity import Identity
from mcp_bridge._storage.stores.memory import MemoryStore
from mcp_bridge.serving import State
from mcp_bridge.testing import connect

ERAS = pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
LONG = "".join(chr(ord("a") + number % 26) for number in range(1050))


def build_bridge(answer: Any, schema: Any = None, **state: Any) -> Bridge:
    def handler(data: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    registry = ToolRegistry()
    registry.register(ToolEntry("t", "A tool.", handler, {"type": "object"}, schema or {}))
    return Bridge(registry, identity=Identity(result=100), state=State(**state))


async def test_what_fits_is_left_alone() -> None:
    async with connect(build_bridge("x" * 100)) as client:
        result = await client.call_tool("t", {})
        assert [item.text for item in result.content] == ["x" * 100]


@ERAS
async def test_the_rest_is_read_page_by_page(mode: str) -> None:
    async with connect(build_bridge(LONG), mode=mode) as client:
        result = await client.call_tool("t", {})
        assert not result.is_error
        listing, note, link = result.content
        assert listing.text == LONG[:100]
        assert "100 of 1050 characters" in note.text
        first, last = re.findall(r"mcp-bridge://results/[\w-]+/\d+", note.text)
        assert link.uri == first
        start = first.rsplit("/", 1)[0]
        assert last == f"{start}/11"
        pages = [(await client.read_resource(f"{start}/{number}")).contents[0].text for number in range(2, 12)]
        assert listing.text + "".join(pages) == LONG
        for missing in (f"{start}/12", f"{start}/1", "mcp-bridge://results/other/2"):
            with pytest.raises(MCPError) as rejection:
                await client.read_resource(missing)
            assert rejection.value.code == -32602


async def test_other_blocks_stay_and_several_texts_are_one() -> None:
    async with connect(build_bridge([Text("a" * 90), Image(b"\x00", "image/png"), Text("b" * 90)])) as client:
        result = await client.call_tool("t", {})
        assert result.content[0].text == "a" * 90 + "\n" + "b" * 9
        assert [item.type for item in result.content] == ["text", "text", "resource_link", "image"]


async def test_structured_content_without_an_output_schema_is_left_out() -> None:
    async with connect(build_bridge({"a": LONG})) as client:
        result = await client.call_tool("t", {})
        assert (result.is_error, result.structured_content) == (False, None)


async def test_a_truncated_result_is_an_error_if_the_tool_has_an_output_schema() -> None:
    async with connect(build_bridge({"a": LONG}, {"type": "object"})) as client:
        result = await client.call_tool("t", {})
        assert (result.is_error, result.structured_content) == (True, None)
        assert result.meta["mcp-bridge/code"] == "result_too_large"
        assert result.content[0].text.startswith('{"a":"abc')


async def test_an_error_is_truncated_and_keeps_its_code() -> None:
    async with connect(build_bridge(ToolError(LONG, code="long"))) as client:
        result = await client.call_tool("t", {})
        assert (result.is_error, result.meta["mcp-bridge/code"]) == (True, "long")
        assert result.content[0].text == LONG[:100]


async def test_the_result_mentions_a_rest_that_is_too_large_to_store() -> None:
    store = MemoryStore(max_bytes=300)
    async with connect(build_bridge(LONG, store=store)) as client:
        result = await client.call_tool("t", {})
        assert [item.type for item in result.content] == ["text", "text"]
        assert "too large to be stored" in result.content[1].text


async def test_large_content_other_than_text_is_left_out_and_reported() -> None:
    content = [Text("a"), Image(b"\x00" * 300, "image/png"), Image(b"\x00", "image/png")]
    bridge = build_bridge(content)
    bridge.identity = bridge.identity._replace(result=1000, content=200)
    async with connect(bridge) as client:
        result = await client.call_tool("t", {})
        assert [item.type for item in result.content] == ["text", "image", "text"]
        assert "1 parts other than text were left out" in result.content[2].text


async def test_a_long_list_of_texts_is_joined() -> None:
    bridge = build_bridge([Text("")] * 5000)
    bridge.identity = bridge.identity._replace(result=10_000)
    async with connect(bridge) as client:
        result = await client.call_tool("t", {})
        assert [item.text for item in result.content] == ["\n" * 4999]
