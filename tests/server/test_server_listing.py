"""tools/list: pages that can be walked while tools change, and what each era is told about keeping them."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mcp.shared.exceptions import MCPError

from mcp_bridge import ToolEntry, ToolRegistry
from mcp_bridge.app.bridge import Bridge, Identity
from mcp_bridge.server.endpoint import Endpoint
from mcp_bridge.server.pages import decode_cursor, encode_cursor
from mcp_bridge.server.tools import ToolIndex
from mcp_bridge.testing import connect
from tests.kits.transports.stdio_talk import served

MODES = pytest.mark.parametrize("mode", ["legacy", "auto"])
NAMES = [f"tool_{number:03}" for number in range(600)]


def entry(name: str) -> ToolEntry:
    return ToolEntry(name, f"The tool {name}.", lambda data: name, {"type": "object"}, owner="many")


def full() -> ToolRegistry:
    registry = ToolRegistry()
    registry.publish("many", [entry(name) for name in reversed(NAMES)])
    return registry


@MODES
async def test_six_hundred_tools_are_walked_in_order_page_by_page(mode: str) -> None:
    async with connect(full(), mode=mode) as client:
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
    bridge = Bridge(full(), identity=Identity(page=600))
    async with connect(bridge) as client:
        page = await client.list_tools()
        assert (len(page.tools), page.next_cursor) == (600, None)


async def test_a_registry_without_tools_has_one_empty_page() -> None:
    async with connect(ToolRegistry()) as client:
        page = await client.list_tools()
        assert (page.tools, page.next_cursor) == ([], None)


async def test_a_cursor_tells_a_reader_nothing_by_itself() -> None:
    async with connect(full()) as client:
        cursor = (await client.list_tools()).next_cursor
    assert cursor is not None
    assert not any(name in cursor for name in NAMES)
    assert not cursor.isdecimal()


CURSORS = ["", "2", "é", "tool_249", "====", "a", base64.urlsafe_b64encode(b"tool_249").decode(), "YWZ0ZXI6gA"]


@MODES
async def test_a_cursor_that_was_never_given_is_refused(mode: str) -> None:
    async with connect(full(), mode=mode) as client:
        for cursor in CURSORS:
            with pytest.raises(MCPError) as caught:
                await client.list_tools(cursor=cursor)
            assert caught.value.error.code == -32602
            assert caught.value.error.data == {"cursor": cursor}
        assert (await client.list_tools()).tools


@MODES
async def test_a_cursor_stays_good_while_tools_come_and_go(mode: str) -> None:
    registry = full()
    async with connect(registry, mode=mode) as client:
        first = await client.list_tools()
        registry.unregister(first.tools[-1].name)  # the very tool the next page begins after
        registry.unregister("tool_000")
        registry.register(entry("tool_249a"))
        registry.register(entry("a_new_first"))
        second = await client.list_tools(cursor=first.next_cursor)
        assert [tool.name for tool in second.tools] == ["tool_249a", *NAMES[250:499]]
        registry.publish("many", [])
        assert [tool.name for tool in (await client.list_tools(cursor=second.next_cursor)).tools] == []


@given(st.text())
def test_a_cursor_says_the_name_it_was_made_of(name: str) -> None:
    assert decode_cursor(encode_cursor(name)) == name


@given(st.text())
@example(encode_cursor("a") + "=")
@example(encode_cursor("ab") + "\n")
def test_only_cursors_of_our_own_making_are_read(cursor: str) -> None:
    try:
        name = decode_cursor(cursor)
    except ValueError:
        return
    assert encode_cursor(name) == cursor


def test_cursors_that_clients_invent_are_not_kept_without_end() -> None:
    registry = ToolRegistry()
    registry.publish("few", [entry("a"), entry("b")])
    listing = ToolIndex(registry, page=1)
    for number in range(500):
        listing.get_page("2026-07-28", encode_cursor(f"a{number}"))
    assert len(listing._pages._rendered) <= 2


def test_a_page_is_made_once_for_each_change() -> None:
    registry = full()
    listing = ToolIndex(registry, page=250)
    first = listing.get_page("2026-07-28", None)
    assert listing.get_page("2026-07-28", None) is first
    registry.unregister("tool_000")
    assert listing.get_page("2026-07-28", None) is not first


async def test_only_the_stateless_era_is_told_how_long_to_keep_a_list(stateless: bool) -> None:
    async with served(full(), stateless=stateless) as talk:
        await talk.hello()
        first = (await talk.get("tools/list"))["result"]
        second = (await talk.get("tools/list", {"cursor": first["nextCursor"]}))["result"]
    for result in (first, second):
        told = {key: result.get(key) for key in ("resultType", "ttlMs", "cacheScope")}
        if stateless:
            assert told == {"resultType": "complete", "ttlMs": 60_000, "cacheScope": "public"}
        else:
            assert told == dict.fromkeys(told)
            assert set(result) <= {"tools", "nextCursor", "_meta"}


async def test_a_private_bridge_says_that_its_lists_are_private() -> None:
    bridge = Bridge(full(), identity=Identity(private=True, ttl_ms=5))
    async with served(bridge, stateless=True) as talk:
        for method in ("tools/list", "server/discover"):
            result = (await talk.get(method))["result"]
            assert (result["cacheScope"], result["ttlMs"]) == ("private", 5)


async def test_the_sdk_finds_a_tools_schema_by_the_name_that_clients_know() -> None:
    registry = ToolRegistry()
    registry.register(
        ToolEntry("greet", "Greets.", lambda data: "hi", {"type": "object", "properties": {"who": {"type": "string"}}})
    )
    listing = ToolIndex(registry, page=10)
    schema: Any = listing.get_input_schema("greet")
    assert schema["properties"] == {"who": {"type": "string"}}
    assert listing.get_input_schema("gone") is None


def test_an_endpoint_without_options_has_a_name() -> None:
    assert Endpoint(ToolRegistry()).kernel.name == "mcp-bridge"
