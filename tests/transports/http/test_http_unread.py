"""A call without a reader of its stream lends its slot to other calls, until its client reconnects."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx2
import pytest

from mcp_bridge import ToolRegistry
from mcp_bridge._engine.pipeline import ToolLimits
from mcp_bridge._transports.http import session
from mcp_bridge._transports.http.sessions import ResumeOptions, SessionOptions
from mcp_bridge.middleware import Pipeline
from tests.client.http_client import Event, HttpSession, open_session, read_events
from tests.kits.constants import TIMEOUT
from tests.kits.http.http_hosting import make_entry, serve_http
from tests.kits.http.http_streams import StepTool, open_http, summarize
from tests.kits.waiting import wait_for_event

SOON = {"brief": ToolLimits(timeout=0.3)}
RESUMABLE = SessionOptions(resuming=ResumeOptions())


@pytest.fixture(autouse=True)
def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "LENDING_DELAY", 0.05)


@contextlib.asynccontextmanager
async def serve_one_slot(work: StepTool, sessions: SessionOptions) -> AsyncIterator[httpx2.AsyncClient]:
    """Serve a bridge with one concurrent call."""
    tools = ToolRegistry(pipeline=Pipeline(concurrency=1, timeout=TIMEOUT, tools=SOON))
    tools.publish("test", [make_entry("work", work), make_entry("there"), make_entry("brief")])
    async with serve_http(tools, sessions=sessions) as (base, _), open_http(base) as http:
        yield http


async def call(http: httpx2.AsyncClient, name: str) -> Any:
    """Call a tool as another client, and return the result."""
    talk = await open_session(http)
    async with talk.stream_call(1, name) as stream:
        stream_events = [event async for event in read_events(stream)]
    return stream_events[-1].message["result"]


async def leave_after_one_step(talk: HttpSession, work: StepTool) -> Event:
    async with talk.stream_call(1) as stream:
        work.report(1)
        async for event in read_events(stream):
            if event.data:
                return event
    raise AssertionError("the stream has ended")


@pytest.mark.parametrize("sessions", [RESUMABLE, SessionOptions(resuming=None)], ids=["resumable", "not resumable"])
async def test_a_call_whose_client_has_left_lends_its_slot_to_another(sessions: SessionOptions) -> None:
    work = StepTool()
    async with serve_one_slot(work, sessions) as http:
        await leave_after_one_step(await open_session(http), work)
        with anyio.fail_after(TIMEOUT / 2):
            assert not (await call(http, "there")).get("isError")
        assert not work.cancelled.is_set()


async def test_a_call_whose_client_comes_back_reclaims_its_slot() -> None:
    work = StepTool()
    async with serve_one_slot(work, RESUMABLE) as http:
        talk = await open_session(http)
        first = await leave_after_one_step(talk, work)
        assert not (await call(http, "there")).get("isError")
        async with talk.open_stream(first.id) as stream:
            work.report(2)
            stream_events = read_events(stream)
            assert summarize(await anext(stream_events)) == 2
            response = await call(http, "brief")
            assert response["_meta"]["mcp-bridge/code"] == "overloaded"
            work.finish()
            assert summarize(await anext(stream_events)) == "done"
        assert not (await call(http, "brief")).get("isError")


async def test_a_call_that_closes_its_own_stream_lends_its_slot_too() -> None:
    work = StepTool()
    async with serve_one_slot(work, RESUMABLE) as http:
        talk = await open_session(http)
        async with talk.stream_call(1) as stream:
            work.close_stream()
            assert [event async for event in read_events(stream)]
        await wait_for_event(work.begun)
        with anyio.fail_after(TIMEOUT / 2):
            assert not (await call(http, "there")).get("isError")


async def test_a_call_whose_client_reads_keeps_its_slot() -> None:
    work = StepTool()
    async with serve_one_slot(work, RESUMABLE) as http:
        talk = await open_session(http)
        async with talk.stream_call(1) as stream:
            await wait_for_event(work.begun)
            response = await call(http, "brief")
            assert response["_meta"]["mcp-bridge/code"] == "overloaded"
            work.finish()
            assert summarize([event async for event in read_events(stream)][-1]) == "done"
