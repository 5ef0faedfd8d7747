"""The event stream of the page: its events, its resumption, its limits and its end."""

from __future__ import annotations

from typing import Any

import anyio
import httpx2
import pytest

from mcp_bridge import CallContext
from mcp_bridge._web import feed
from tests.kits.constants import TIMEOUT
from tests.kits.http.http_hosting import Gate, build_registry, make_entry
from tests.kits.web.web_kit import TOKEN, serve_page


async def test_a_call_is_sent_at_its_start_with_progress_and_at_its_end() -> None:
    step = anyio.Event()

    async def work(data: Any, ctx: CallContext) -> str:
        await step.wait()
        await ctx.report_progress(1, 2, "halfway")
        await gate({})
        return "done"

    gate = Gate()
    async with (
        serve_page(build_registry(make_entry("work", work))) as server,
        server.read() as page,
        page.follow(),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(page.call_tool, "work")
        start = await page.wait_for("call")
        assert (start["state"], start["progress"]) == ("running", None)
        step.set()
        await page.wait_for("call", lambda call: call["progress"] is not None and call["state"] == "running")
        gate.release.set()
        end = await page.wait_for("call", lambda call: call["state"] == "ok")
    assert (end["id"], end["result"]) == (start["id"], "done")
    assert end["progress"] == {"progress": 1, "total": 2, "message": "halfway"}


async def test_a_broken_stream_is_resumed_without_loss() -> None:
    async with (
        serve_page(build_registry(make_entry("echo"))) as server,
        server.read() as page,
        server.read() as second_page,
    ):
        async with page.follow():
            await page.call_tool("echo")
            await page.wait_for("call", lambda call: call["state"] == "ok")
        last = page.events[-1][0]
        await page.call_tool("echo")
        await page.wait_for_state(lambda state: len(state["calls"]) == 2)
        async with second_page.follow(last):
            await second_page.wait_for("call", lambda call: call["id"] == 2)
    assert "reset" not in [name for _, name, _ in second_page.events]
    assert {data["id"] for _, _, data in second_page.events} == {2}


@pytest.mark.parametrize("last", ["abcdef00-1", "", "-", "x-9999999999999999999999"])
async def test_an_unknown_event_resets_the_page(last: str) -> None:
    async with serve_page(build_registry(make_entry("echo"))) as server, server.read() as page, page.follow(last):
        await page.wait_for("reset")


async def test_missed_events_that_are_not_in_the_log_reset_the_page(monkeypatch: Any) -> None:
    monkeypatch.setattr(feed, "MAX_EVENTS", 2)
    async with (
        serve_page(build_registry(make_entry("echo"))) as server,
        server.read() as page,
        server.read() as second_page,
        page.follow(),
    ):
        for number in range(1, 5):
            await page.call_tool("echo")
            await page.wait_for("call", lambda call, number=number: call["id"] == number)
        first = page.events[1][0]
        async with second_page.follow(first):
            await second_page.wait_for("reset")


async def test_many_calls_are_counted_instead_of_sent(monkeypatch: Any) -> None:
    monkeypatch.setattr(feed, "MAX_BATCH", 1)
    async with serve_page(build_registry(make_entry("echo"))) as server, server.read() as page, page.follow():
        async with anyio.create_task_group() as tasks:
            for _ in range(40):
                tasks.start_soon(page.call_tool, "echo")
        event = await page.wait_for("dropped")
        assert event["n"] > 0
        await page.wait_for_state(lambda state: sum(call["state"] == "ok" for call in state["calls"]) == 40)


async def test_a_page_that_does_not_read_is_disconnected_and_delays_no_call(monkeypatch: Any) -> None:
    monkeypatch.setattr("mcp_bridge._web.api.MAX_BACKLOG", 100_000)
    big = build_registry(make_entry("big", lambda data: ["x" * 4000] * 40))
    async with serve_page(big) as server, server.read() as page:
        address = httpx2.URL(server.base)
        async with await anyio.connect_tcp("127.0.0.1", address.port) as slow:
            head = f"GET /page/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
            await slow.send(head.encode())
            assert b"200 OK" in await slow.receive()
            (open_page,) = server.page.feed.pages
            with anyio.fail_after(TIMEOUT):
                while not open_page.events.is_ended:
                    await page.call_tool("big")
            assert (await page.read_state())["server"]["pid"]


async def test_changed_tools_and_sources_are_reported() -> None:
    registry = build_registry(make_entry("echo"))
    async with serve_page(registry) as server, server.read() as page, page.follow():
        registry.publish("test", [make_entry("echo"), make_entry("more")])
        await page.wait_for("tools")


async def test_the_number_of_open_pages_is_limited(monkeypatch: Any) -> None:
    monkeypatch.setattr(feed, "MAX_PAGES", 1)
    async with (
        serve_page(build_registry(make_entry("echo"))) as server,
        server.read() as page,
        page.follow(),
        page.http.stream("GET", "/page/events") as response,
    ):
        assert response.status_code == 503


async def test_nothing_is_rendered_once_no_page_is_open(monkeypatch: Any) -> None:
    monkeypatch.setattr(feed, "GRACE", 0.0)
    async with serve_page(build_registry(make_entry("echo"))) as server, server.read() as page:
        async with page.follow():
            assert server.page.history.listener is not None
        with anyio.fail_after(TIMEOUT):
            while server.page.history.listener is not None:  # noqa: ASYNC110 - it has no event
                await anyio.sleep(0.01)
        await page.call_tool("echo")
        assert (await page.read_state())["calls"][0]["layers"] == []


async def test_progress_that_is_not_json_is_shown_too() -> None:
    async def work(data: Any, ctx: CallContext) -> None:
        await ctx.report_progress(data["n"], 10**30, "lone \ud800 surrogate")

    async with serve_page(build_registry(make_entry("work", work))) as server, server.read() as page, page.follow():
        await page.call_tool("work", n=1)
        call = await page.wait_for("call", lambda call: call["state"] == "ok")
        state = await page.read_state()
    assert call["progress"] == {"progress": 1, "total": 10**30, "message": "lone \ufffd surrogate"}
    assert state["calls"] == [call]
