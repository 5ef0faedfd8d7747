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
from tests.kits.constants import TIMEOUT
from tests.kits.http.http_hosting import entry, hosted, soon
from tests.kits.http.http_talking import Event, Talk, Work, client_of, events, opened

SOON = {"brief": ToolLimits(timeout=0.3)}
RESUMABLE = SessionOptions(resuming=ResumeOptions())


@pytest.fixture(autouse=True)
def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "UNREAD", 0.05)


@contextlib.asynccontextmanager
async def one_place(work: Work, sessions: SessionOptions) -> AsyncIterator[httpx2.AsyncClient]:
    """A bridge with one concurrent call."""
    tools = ToolRegistry(pipeline=Pipeline(concurrency=1, timeout=TIMEOUT, tools=SOON))
    tools.publish("test", [entry("work", work), entry("there"), entry("brief")])
    async with hosted(tools, sessions=sessions) as (base, _), client_of(base) as http:
        yield http


async def call(http: httpx2.AsyncClient, name: str) -> Any:
    """The result of a call by another client."""
    talk = await opened(http)
    async with talk.call(1, name) as stream:
        stream_events = [event async for event in events(stream)]
    return stream_events[-1].data["result"]


async def leave_after_one_step(talk: Talk, work: Work) -> Event:
    async with talk.call(1) as stream:
        work.steps(1)
        async for event in events(stream):
            if event.data is not None:
                return event
    raise AssertionError("the stream has ended")


@pytest.mark.parametrize("sessions", [RESUMABLE, SessionOptions(resuming=None)], ids=["resumable", "not resumable"])
async def test_a_call_whose_client_has_left_lends_its_slot_to_another(sessions: SessionOptions) -> None:
    work = Work()
    async with one_place(work, sessions) as http:
        await leave_after_one_step(await opened(http), work)
        with anyio.fail_after(TIMEOUT / 2):
            assert not (await call(http, "there")).get("isError")
        assert not work.cancelled.is_set()


async def test_a_call_whose_client_comes_back_reclaims_its_slot() -> None:
    work = Work()
    async with one_place(work, RESUMABLE) as http:
        talk = await opened(http)
        first = await leave_after_one_step(talk, work)
        assert not (await call(http, "there")).get("isError")
        async with talk.listen(first.id) as stream:
            work.steps(2)
            stream_events = events(stream)
            assert (await anext(stream_events)).says == 2
            response = await call(http, "brief")
            assert response["_meta"]["mcp-bridge/code"] == "overloaded"
            work.end()
            assert (await anext(stream_events)).says == "done"
        assert not (await call(http, "brief")).get("isError")


async def test_a_call_that_closes_its_own_stream_lends_its_slot_too() -> None:
    work = Work()
    async with one_place(work, RESUMABLE) as http:
        talk = await opened(http)
        async with talk.call(1) as stream:
            work.close()
            assert [event async for event in events(stream)]
        await soon(work.begun)
        with anyio.fail_after(TIMEOUT / 2):
            assert not (await call(http, "there")).get("isError")


async def test_a_call_whose_client_reads_keeps_its_slot() -> None:
    work = Work()
    async with one_place(work, RESUMABLE) as http:
        talk = await opened(http)
        async with talk.call(1) as stream:
            await soon(work.begun)
            response = await call(http, "brief")
            assert response["_meta"]["mcp-bridge/code"] == "overloaded"
            work.end()
            assert [event async for event in events(stream)][-1].says == "done"
