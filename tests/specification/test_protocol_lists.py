"""Pages, caching hints and change notices: the common features of all lists, in both eras."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import mcp_types as types
import pytest

from mcp_bridge import ToolRegistry, asgi_app
from tests.client.http_client import connect_over_http
from tests.client.raw_client import Json, RawClient
from tests.kits.constants import TIMEOUT
from tests.kits.protocol.protocol_hosting import Hosting
from tests.kits.protocol.protocol_manifest import proves
from tests.kits.protocol.protocol_tools import OFFERED
from tests.kits.protocol.protocol_ways import EVERY_TRANSPORT, STATELESS_ONLY, Connected, over

LISTS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
SMALL_PAGES = pytest.mark.parametrize("options", [{"page": 2}], ids=["small pages"])
KINDS = {"tools": "toolsListChanged", "resources": "resourcesListChanged", "prompts": "promptsListChanged"}


async def read_pages(raw: RawClient, method: str) -> list[Json]:
    """Read all pages of a list."""
    all_pages = [await raw.get_result(method)]
    while "nextCursor" in all_pages[-1]:
        all_pages.append(await raw.get_result(method, {"cursor": all_pages[-1]["nextCursor"]}))
    return all_pages


@proves("utilities/pages")
@SMALL_PAGES
async def test_pages_give_everything_once(connected: Connected) -> None:
    sizes = {
        "tools/list": len(OFFERED),
        "resources/list": len(OFFERED.resources),
        "resources/templates/list": len(OFFERED.templates),
        "prompts/list": len(OFFERED.prompts),
    }
    async with connected.raw_client() as raw:
        for method, key in LISTS.items():
            items = [item for page in await read_pages(raw, method) for item in page[key]]
            assert len(items) == sizes[method]
            assert len({item.get("uri") or item.get("uriTemplate") or item["name"] for item in items}) == len(items)


@proves("utilities/stable-cursors")
@SMALL_PAGES
async def test_a_cursor_leads_to_the_same_place_also_after_changes(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        first = await raw.get_result("tools/list")
        cursor = {"cursor": first["nextCursor"]}
        second = await raw.get_result("tools/list", cursor)
        assert (await raw.get_result("tools/list", cursor))["tools"] == second["tools"]
        await raw.call("add", {"kind": "tools", "name": "Aaa"})
        assert (await raw.get_result("tools/list", cursor))["tools"] == second["tools"]
        await raw.call("remove_tool", {"name": first["tools"][-1]["name"]})
        assert (await raw.get_result("tools/list", cursor))["tools"] == second["tools"]


@proves("utilities/invalid-cursor")
async def test_an_invalid_cursor_is_an_invalid_parameter(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        for method in LISTS:
            for cursor in ("invented", "////", "YWZ0ZXI", "\u00e9", "a" * 10_000):
                assert (await raw.get_error(method, {"cursor": cursor}))["code"] == -32602, (method, cursor)


@proves("utilities/cache-hints")
@STATELESS_ONLY
async def test_cacheable_results_declare_their_ttl_and_scope(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        read = ("resources/read", {"uri": "test://text"})
        for method, params in (("server/discover", {}), *((method, {}) for method in LISTS), read):
            result = await raw.get_result(method, params)
            assert type(result["ttlMs"]) is int
            assert result["ttlMs"] >= 0
            assert result["cacheScope"] in {"public", "private"}


@proves("utilities/no-hints-between")
@STATELESS_ONLY
async def test_a_result_that_asks_for_input_has_no_caching_hints(connected: Connected) -> None:
    async with connected.raw_client(elicitation={}) as raw:
        questions = await raw.get_result("resources/read", {"uri": "test://asking"})
        assert questions["resultType"] == "input_required"
        assert questions.keys().isdisjoint({"ttlMs", "cacheScope"})


@proves("utilities/same-scope")
@STATELESS_ONLY
@pytest.mark.parametrize("options", [{"page": 5}, {"page": 5, "private": True}], ids=["public", "private"])
async def test_all_pages_have_one_scope(connected: Connected, options: dict[str, Any]) -> None:
    async with connected.raw_client() as raw:
        scopes = [page["cacheScope"] for page in await read_pages(raw, "tools/list")]
        assert len(scopes) > 2
        assert set(scopes) == {"private" if options.get("private") else "public"}


@proves("utilities/private-where-guarded")
@over("http", stateless=True)
async def test_results_that_need_a_token_are_private(host: Hosting) -> None:
    registry = ToolRegistry()
    registry.publish("tests", OFFERED.list())
    with host.serve_app(asgi_app(registry, token="secret")) as base:
        async with connect_over_http(base, stateless=True) as raw:
            raw.headers["Authorization"] = "Bearer secret"
            for method in ("server/discover", *LISTS):
                assert (await raw.get_result(method))["cacheScope"] == "private"


@proves("tools/list-changed", "resources/list-changed", "prompts/list-changed")
@EVERY_TRANSPORT
async def test_clients_are_notified_when_a_list_changes(connected: Connected) -> None:
    async with connected.raw_client() as raw:
        if connected.stateless:
            await raw.send_request("subscriptions/listen", {"notifications": dict.fromkeys(KINDS.values(), True)})
            await raw.receive_message("notifications/subscriptions/acknowledged")
        for list_name in KINDS:
            assert raw.list_notifications(f"notifications/{list_name}/list_changed") == []
            await raw.call("add", {"kind": list_name, "name": "newcomer"})
            await raw.receive_message(f"notifications/{list_name}/list_changed")
            assert "newcomer" in str((await raw.get_result(f"{list_name}/list"))[list_name])


@proves("tools/list-changed")
@over("memory", "http")
async def test_the_official_client_is_notified_of_changes(connected: Connected) -> None:
    notice = anyio.Event()

    async def record_message(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            notice.set()

    async with connected.client(message_handler=record_message, cache=None) as client:
        if connected.stateless:
            async with client.listen(tools_list_changed=True) as changes:
                await client.call_tool("add", {"kind": "tools", "name": "newcomer"})
                async for _ in changes:
                    break
        else:
            with anyio.fail_after(TIMEOUT):
                number = 0
                # Over HTTP the stream opens in the background, without a notification.
                while not notice.is_set():
                    number += 1
                    await client.call_tool("add", {"kind": "tools", "name": f"newcomer_{number}"})
                    await anyio.lowlevel.checkpoint()
        assert "newcomer" in str(await client.list_tools())
