"""The client of the operator API, and the table of `top`."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest

from mcp_bridge._cli.top import CallTable
from mcp_bridge._web import feed
from mcp_bridge._web.client import OperatorClient, OperatorError
from tests.kits.http.http_hosting import build_registry, make_entry
from tests.kits.web.web_kit import LEGACY, TOKEN, serve_page


async def test_a_server_without_an_operator_api_is_reported() -> None:
    async def respond(stream: Any) -> None:
        async with stream:
            await stream.receive()
            await stream.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>")

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, respond)
        with pytest.raises(OperatorError, match="is not a server with a page"):
            await OperatorClient(f"http://127.0.0.1:{port}").read_state()
        tasks.cancel_scope.cancel()


async def test_a_rejection_is_reported_with_the_reason_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "MAX_PAGES", 0)
    async with serve_page(build_registry(make_entry("echo"))) as server:
        with pytest.raises(OperatorError, match=r"status 503: 0 pages are open\. Close one\."):
            await anext(OperatorClient(server.base, TOKEN).follow_events())


async def test_the_table_lists_clients_while_they_are_connected_and_names_them_afterwards() -> None:
    table = CallTable()

    async with serve_page(build_registry(make_entry("echo"))) as server, anyio.create_task_group() as tasks:
        client, news = OperatorClient(server.base, TOKEN), asyncio.Queue[str]()

        async def follow() -> None:
            async for event in client.follow_events():
                table.apply_event(event)
                news.put_nowait(event.name)

        async def wait_for(name: str) -> None:
            while await news.get() != name:
                pass

        tasks.start_soon(follow)
        await wait_for("reset")
        table.replace_state(await client.read_state())
        async with LEGACY.connect(server.base, token=TOKEN) as caller:
            await caller.call_tool("echo", {"n": 1})
            await wait_for("call")
            assert "1 client" in table.summarize()
        await wait_for("client")
        assert "0 clients" in table.summarize()
        ((_, cells),) = table.list_rows(9)
        assert cells[-2].startswith("mcp ")
        tasks.cancel_scope.cancel()
