"""tools/list: its pages remain complete while tools change, and have the caching hints of each era."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mcp.shared.exceptions import MCPError

from mcp_bridge import ToolEntry, ToolRegistry
from mcp_bridge._app.bridge import Bridge, Identity
from mcp_bridge._server.pages import Pages, decode_cursor, encode_cursor
from mcp_bridge.testing import connect
from tests.client.stdio_client import serve_over_pipes

MODES = pytest.mark.parametrize("mode", ["legacy", "auto"])
NAMES = [f"tool_{number:03}" for number in range(600)]


def make_entry(name: str) -> ToolEntry:
    return ToolEntry(name, f"The tool {name}.", lambda data: name, {"type": "object"}, owner="many")


def build_full_registry() -> ToolRegistry:
    registry = ToolRegistry()
    registry.publish("many", [make_entry(name) for name in reversed(NAMES)])
    return registry


@MODES
async def test_six_hundred_tools_are_walked_in_order_page_by_page(mode: str) -> None:
    async with connect(build_full_registry(), mode=mode) as client:
        names: list[str] = []
        sizes: list[int] = []
        cursor = None
        while True:
            page = await client.list_tools(cursor=cursor)
            names += [tool.name for tool in page.tools]
            sizes.append(len(page.tools))
            cursor = page.next_cursor
            if cursor is None:
                break
    assert names == NAMES
    assert sizes == [250, 250, 100]


async def test_a_list_that_fits_one_page_exactly_has_no_cursor() -> None:
    bridge = Bridge(build_full_registry(), identity=Identity(page=600))
    async with connect(bridge) as client:
        page = await client.list_tools()
        assert (len(page.tools), page.next_cursor) == (600, None)


async def test_a_registry_without_tools_has_one_empty_page() -> None:
    async with connect(ToolRegistry()) as client:
        page = await client.list_tools()
        assert (page.tools, page.next_cursor) == ([], None)


async def test_a_cursor_does_not_show_the_name_as_plain_text() -> None:
    async with connect(build_full_registry()) as client:
        cursor = (await client.list_tools()).next_cursor
    assert cursor is not None
    assert not any(name in cursor for name in NAMES)
    assert not cursor.isdecimal()


CURSORS = ["", "2", "é", "tool_249", "====", "a", base64.urlsafe_b64encode(b"tool_249").decode(), "YWZ0ZXI6gA"]


@MODES
async def test_an_invented_cursor_is_rejected(mode: str) -> None:
    async with connect(build_full_registry(), mode=mode) as client:
        for cursor in CURSORS:
            with pytest.raises(MCPError) as caught:
                await client.list_tools(cursor=cursor)
            assert caught.value.error.code == -32602
            assert caught.value.error.data == {"cursor": cursor}
        assert (await client.list_tools()).tools


@MODES
async def test_a_cursor_stays_valid_while_tools_are_added_and_removed(mode: str) -> None:
    registry = build_full_registry()
    async with connect(registry, mode=mode) as client:
        first = await client.list_tools()
        # The next page begins after this tool.
        registry.unregister(first.tools[-1].name)
        registry.unregister("tool_000")
        registry.register(make_entry("tool_249a"))
        registry.register(make_entry("a_new_first"))
        second = await client.list_tools(cursor=first.next_cursor)
        assert [tool.name for tool in second.tools] == ["tool_249a", *NAMES[250:499]]
        registry.publish("many", [])
        assert [tool.name for tool in (await client.list_tools(cursor=second.next_cursor)).tools] == []


@given(st.text())
def test_a_cursor_decodes_to_its_name(name: str) -> None:
    assert decode_cursor(encode_cursor(name)) == name


@given(st.text())
@example(encode_cursor("a") + "=")
@example(encode_cursor("ab") + "\n")
def test_only_cursors_of_this_server_are_accepted(cursor: str) -> None:
    try:
        name = decode_cursor(cursor)
    except ValueError:
        return
    assert encode_cursor(name) == cursor


@pytest.mark.parametrize(("after", "encoded"), [(None, 1), ("b", 1), ("a", 3)])
def test_a_page_is_encoded_once_unless_a_client_invented_its_cursor(after: str | None, encoded: int) -> None:
    count = 0

    def encode(page: Mapping[str, Any], version: str) -> orjson.Fragment:
        nonlocal count
        count += 1
        return orjson.Fragment(orjson.dumps(page))

    pages = Pages("tools", 2)
    pages.replace({name: lambda version: {} for name in "abcd"})
    for _ in range(3):
        pages.get_encoded("2026-07-28", encode_cursor(after) if after else None, 0, encode)
    assert count == encoded


async def test_only_lists_of_the_stateless_era_have_caching_hints(stateless: bool) -> None:
    async with serve_over_pipes(build_full_registry(), stateless=stateless) as client:
        first = (await client.request("tools/list"))["result"]
        second = (await client.request("tools/list", {"cursor": first["nextCursor"]}))["result"]
    for result in (first, second):
        report = {key: result.get(key) for key in ("resultType", "ttlMs", "cacheScope")}
        if stateless:
            assert report == {"resultType": "complete", "ttlMs": 60_000, "cacheScope": "public"}
        else:
            assert report == dict.fromkeys(report)
            assert set(result) <= {"tools", "nextCursor", "_meta"}


async def test_lists_of_a_private_bridge_have_the_cache_scope_private() -> None:
    bridge = Bridge(build_full_registry(), identity=Identity(private=True, ttl_ms=5))
    async with serve_over_pipes(bridge, stateless=True) as client:
        for method in ("tools/list", "server/discover"):
            result = (await client.request(method))["result"]
            assert (result["cacheScope"], result["ttlMs"]) == ("private", 5)
