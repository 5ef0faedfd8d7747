"""The resumption of streams after a disconnection, or after the server has closed them."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import httpx2
import pytest

from mcp_bridge import CallContext, ToolRegistry
from mcp_bridge._engine.authoring import tool
from mcp_bridge._runtime.tasks import own_tasks
from mcp_bridge._transports.http.app import BridgeApp
from mcp_bridge._transports.http.event_log import StoredEvents
from mcp_bridge._transports.http.event_stream import EventStream
from mcp_bridge._transports.http.request import HttpRequest
from mcp_bridge._transports.http.session import SessionStream
from mcp_bridge._transports.http.sessions import ResumeOptions, SessionOptions
from tests.client.http_client import Event, HttpSession, open_session, read_events
from tests.kits.clock import ManualClock
from tests.kits.constants import HANDSHAKE, TIMEOUT
from tests.kits.http.http_hosting import HttpWay, build_registry, make_entry, serve_http
from tests.kits.http.http_streams import (
    UNPRIMED,
    ObservedStore,
    StepTool,
    open_http,
    read_summaries,
    resume,
    summarize,
)
from tests.kits.waiting import wait_for_event

INITIALIZE = 1
"""How many messages of a session are kept before its first call: the answer to initialize."""


class Scene:
    """A bridge, a plain client of it, and the tool `work`."""

    def __init__(
        self, base: str, app: BridgeApp, http: httpx2.AsyncClient, tools: ToolRegistry, work: StepTool
    ) -> None:
        self.base, self.app, self.http, self.tools, self.work = base, app, http, tools, work


@contextlib.asynccontextmanager
async def serve_resumable(work: StepTool | None = None, **resuming: Any) -> AsyncIterator[Scene]:
    """Serve a bridge with resumable streams."""
    work = work or StepTool()
    tools = build_registry(make_entry("work", work), make_entry("there"))
    sessions = SessionOptions(resuming=ResumeOptions(**resuming))
    async with serve_http(tools, sessions=sessions) as (base, app), open_http(base) as http:
        yield Scene(base, app, http, tools, work)


async def select_messages(events: AsyncIterator[Event]) -> AsyncIterator[Event]:
    """Yield the events with a message."""
    async for event in events:
        if event.data:
            yield event


async def disconnect_after_one_step(talk: HttpSession, work: StepTool) -> Event:
    """Call the tool, disconnect after its first message, and return the message."""
    async with talk.stream_call(1) as stream:
        work.report(1)
        return await anext(select_messages(read_events(stream)))


@pytest.mark.parametrize("answered", [True, False], ids=["answered meanwhile", "answered later"])
@pytest.mark.parametrize("version", [HANDSHAKE, UNPRIMED])
async def test_a_broken_stream_is_resumed_with_each_further_message_once(version: str, answered: bool) -> None:
    store = ObservedStore()
    async with serve_resumable(store=store) as running_scene:
        talk = await open_session(running_scene.http, version)
        first = await disconnect_after_one_step(talk, running_scene.work)
        assert summarize(first) == 1
        running_scene.work.report(2)
        if answered:
            running_scene.work.finish()
            await store.wait_for_writes(INITIALIZE + 3)
        async with talk.open_stream(first.id) as stream:
            stream_events = read_events(stream)
            assert summarize(await anext(stream_events)) == 2
            running_scene.work.report(3) if not answered else None
            running_scene.work.finish()
            with anyio.fail_after(TIMEOUT):
                remaining_values = [summarize(event) async for event in stream_events]
        assert remaining_values == (["done"] if answered else [3, "done"])
        assert await talk.ping() == 200


async def test_a_stream_can_be_resumed_after_each_event() -> None:
    async with serve_resumable() as running_scene:
        talk = await open_session(running_scene.http)
        running_scene.work.report(1, 2)
        running_scene.work.finish()
        async with talk.stream_call(1) as stream:
            stream_events = [event async for event in read_events(stream)]
        assert [not event.data for event in stream_events] == [True, False, False, False]
        assert len({event.id for event in stream_events}) == 4
        values = [1, 2, "done"]
        assert [await resume(talk, event.id) for event in stream_events] == [values, values[1:], values[2:], []]


async def test_a_stream_begins_with_an_event_with_the_retry_delay() -> None:
    async with serve_resumable(retry=2.5) as running_scene:
        for version, first_event in ((HANDSHAKE, True), (UNPRIMED, False)):
            talk = await open_session(running_scene.http, version)
            async with talk.stream_call(1, "there") as stream:
                first = await anext(read_events(stream))
            assert first.id
            assert (first.retry, not first.data) == (("2500", True) if first_event else ("", False))


async def test_the_old_connection_ends_when_its_stream_is_resumed() -> None:
    async with serve_resumable() as running_scene:
        talk = await open_session(running_scene.http)
        async with talk.stream_call(1) as old:
            stream_events = read_events(old)
            first_event = await anext(stream_events)
            async with talk.open_stream(first_event.id) as new:
                with anyio.fail_after(TIMEOUT):
                    assert [event async for event in stream_events] == []
                running_scene.work.report(1)
                running_scene.work.finish()
                assert await read_summaries(new) == [1, "done"]


async def test_the_last_connection_that_resumes_has_the_stream() -> None:
    async with serve_resumable() as running_scene:
        talk = await open_session(running_scene.http)
        first = await disconnect_after_one_step(talk, running_scene.work)
        running_scene.work.report(2)
        async with talk.open_stream(first.id) as earlier:
            stream_events = read_events(earlier)
            assert summarize(await anext(stream_events)) == 2
            async with talk.open_stream(first.id) as later:
                with anyio.fail_after(TIMEOUT):
                    assert [event async for event in stream_events] == []
                running_scene.work.finish()
                assert await read_summaries(later) == [2, "done"]


async def test_an_event_of_another_session_with_the_same_request_ids_resumes_nothing() -> None:
    async with serve_resumable() as running_scene:
        mine, theirs = await open_session(running_scene.http), await open_session(running_scene.http)
        first = await disconnect_after_one_step(mine, running_scene.work)
        running_scene.work.finish()
        async with theirs.stream_call(1, "there") as stream:
            (answer,) = [event async for event in read_events(stream) if event.data]
        assert await resume(theirs, first.id) == []
        assert await resume(mine, answer.id) == []
        assert await resume(mine, first.id) == ["done"]


MADE_UP = [
    *("0", "-", "--", "x-1-1", "{session}", "{session}-", "{session}-1", "{session}-1-", "{session}-9-1"),
    *(f"{{session}}-{{stream}}-{place}" for place in ("", "x", "-1", "²", "9" * 5000)),
]


async def test_an_unknown_event_resumes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async with serve_resumable() as running_scene:
        talk = await open_session(running_scene.http)
        async with talk.stream_call(1, "there") as stream:
            first_event = await anext(read_events(stream))
        session, place, _ = first_event.id.split("-")
        for made_up in MADE_UP:
            assert await resume(talk, made_up.format(session=session, stream=place)) == [], made_up[:20]
        assert caplog.records == []
        assert await resume(talk, first_event.id) == ["there"]


async def test_streams_of_one_session_do_not_mix() -> None:
    store = ObservedStore()
    first_tool, two = StepTool(), StepTool()
    tools = build_registry(make_entry("one", first_tool), make_entry("two", two))
    async with (
        serve_http(tools, sessions=SessionOptions(resuming=ResumeOptions(store=store))) as (base, _),
        open_http(base) as http,
    ):
        talk = await open_session(http)
        async with talk.stream_call(1, "one") as first, talk.stream_call(2, "two") as second:
            first_event = [await anext(read_events(stream)) for stream in (first, second)]
        first_tool.report(1, 2)
        two.report(10, 20)
        await store.wait_for_writes(INITIALIZE + 4)
        first_tool.finish()
        two.finish()
        assert [await resume(talk, event.id) for event in first_event] == [[1, 2, "done"], [10, 20, "done"]]


async def test_a_reused_request_id_begins_a_new_stream() -> None:
    async with serve_resumable() as running_scene:
        talk = await open_session(running_scene.http)
        async with talk.stream_call(1, "there") as stream:
            earlier, _ = [event async for event in read_events(stream)]
        first = await disconnect_after_one_step(talk, running_scene.work)
        running_scene.work.finish()
        assert await resume(talk, first.id) == ["done"]
        assert await resume(talk, earlier.id) == ["there"]


async def test_a_session_stores_a_limited_number_of_messages() -> None:
    store = ObservedStore()
    async with serve_resumable(events=4, store=store) as running_scene:
        talk = await open_session(running_scene.http)
        async with talk.stream_call(1) as stream:
            first_event = await anext(read_events(stream))
        running_scene.work.report(1, 2, 3, 4, 5)
        running_scene.work.finish()
        await store.wait_for_writes(INITIALIZE + 6)
        assert await resume(talk, first_event.id) == [3, 4, 5, "done"]
        assert len(store.keys) == 4


async def test_a_long_call_can_be_resumed_in_a_busy_session() -> None:
    async with serve_resumable(events=4) as running_scene:
        talk = await open_session(running_scene.http)
        async with talk.stream_call(1) as stream:
            first_event = await anext(read_events(stream))
        short = []
        for number in range(2, 12):
            async with talk.stream_call(number, "there") as stream:
                short += [event async for event in read_events(stream) if not event.data]
        running_scene.work.finish()
        assert await resume(talk, first_event.id) == ["done"]
        assert [await resume(talk, event.id) for event in short] == [[]] * 7 + [["there"]] * 3


@pytest.mark.parametrize(("passed", "texts"), [(1799.0, ["done"]), (1801.0, [])])
async def test_messages_expire_with_the_idle_timeout_of_sessions(passed: float, texts: list[str]) -> None:
    clock = ManualClock()
    store = ObservedStore(clock=clock)
    async with serve_resumable(store=store) as running_scene:
        talk = await open_session(running_scene.http)
        first = await disconnect_after_one_step(talk, running_scene.work)
        running_scene.work.finish()
        await store.wait_for_writes(INITIALIZE + 2)
        clock.now += passed
        assert await resume(talk, first.id) == texts


class Broken:
    """A store with methods that always fail."""

    async def get(self, key: str) -> bytes | None:
        raise ConnectionError("no server answers")

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        raise ConnectionError("no server answers")

    async def add(self, key: str, value: bytes, ttl: float) -> bool:
        raise ConnectionError("no server answers")

    async def delete(self, key: str) -> None:
        raise ConnectionError("no server answers")


async def test_a_failing_store_only_prevents_resumption() -> None:
    async with serve_resumable(store=Broken()) as running_scene:
        talk = await open_session(running_scene.http)
        first = await disconnect_after_one_step(talk, running_scene.work)
        running_scene.work.finish()
        assert await resume(talk, first.id) == []
        async with talk.stream_call(2, "there") as stream:
            assert await read_summaries(stream) == ["there"]
        assert await talk.delete() == 200


async def test_the_server_closes_a_stream_several_times() -> None:
    async with serve_resumable() as running_scene:
        talk = await open_session(running_scene.http)
        stream = talk.stream_call(1)
        for number in (1, 2, 3):
            running_scene.work.report(number)
            async with stream as answer:
                stream_events = select_messages(read_events(answer))
                last = await anext(stream_events)
                assert summarize(last) == number
                running_scene.work.close_stream()
                with anyio.fail_after(TIMEOUT):
                    assert [event async for event in stream_events] == []
            stream = talk.open_stream(last.id)
        running_scene.work.finish()
        assert await resume(talk, last.id) == ["done"]


async def test_the_official_client_reconnects_when_the_server_closes_its_stream() -> None:
    progress_values: list[float] = []
    back = anyio.Event()

    async def work(data: Any, ctx: CallContext) -> str:
        await ctx.report_progress(1)
        await ctx.close_stream()
        await ctx.report_progress(2)
        await back.wait()
        await ctx.close_stream()
        await ctx.report_progress(3)
        return "done"

    async def record_progress(progress: float, total: float | None, message: str | None) -> None:
        progress_values.append(progress)
        if progress == 2:
            back.set()

    sessions = SessionOptions(resuming=ResumeOptions(retry=0.01))
    tools = build_registry(make_entry("work", work))
    async with serve_http(tools, sessions=sessions) as (base, _), HttpWay("http", "legacy").connect(base) as client:
        with anyio.fail_after(TIMEOUT):
            result = await client.session.call_tool("work", {}, progress_callback=record_progress)
    assert result.content[0].text == "done"  # type: ignore[union-attr]
    assert progress_values == [1, 2, 3]


async def test_the_shutdown_waits_for_a_client_that_was_asked_to_reconnect() -> None:
    async with serve_resumable() as running_scene:
        talk = await open_session(running_scene.http)
        async with talk.stream_call(1) as stream:
            running_scene.work.close_stream()
            with anyio.fail_after(TIMEOUT):
                (first_event,) = [event async for event in read_events(stream)]
        assert not await running_scene.app.counter.wait_until_idle(0)
        running_scene.app.begin_shutdown()
        async with talk.open_stream() as stream:
            assert stream.status_code == 503
        async with talk.open_stream(first_event.id) as stream:
            assert stream.status_code == 200
            running_scene.work.finish()
            assert not await running_scene.app.counter.wait_until_idle(0)
            assert await read_summaries(stream) == ["done"]
        assert await running_scene.app.counter.wait_until_idle(TIMEOUT)


async def test_the_shutdown_does_not_wait_for_a_client_that_resumed_and_disconnected() -> None:
    async with serve_resumable() as running_scene:
        talk = await open_session(running_scene.http)
        first = await disconnect_after_one_step(talk, running_scene.work)
        running_scene.work.report(2)
        async with talk.open_stream(first.id) as stream:
            await anext(read_events(stream))
            assert not await running_scene.app.counter.wait_until_idle(0)
        assert await running_scene.app.counter.wait_until_idle(TIMEOUT)
        running_scene.work.finish()


async def test_the_end_of_a_session_ends_its_resumed_streams_and_deletes_its_messages() -> None:
    store = ObservedStore()
    async with serve_resumable(store=store) as running_scene:
        talk = await open_session(running_scene.http)
        first = await disconnect_after_one_step(talk, running_scene.work)
        running_scene.work.report(2)
        async with talk.open_stream(first.id) as stream:
            stream_events = read_events(stream)
            assert summarize(await anext(stream_events)) == 2
            assert await talk.delete() == 200
            with anyio.fail_after(TIMEOUT):
                assert [event async for event in stream_events] == []
        await wait_for_event(running_scene.work.cancelled)
        assert store.keys == set()
        assert await running_scene.app.counter.wait_until_idle(TIMEOUT)
        async with talk.open_stream(first.id) as stream:
            assert stream.status_code == 404


async def test_the_standalone_stream_is_resumed_with_missed_messages() -> None:
    store = ObservedStore()
    async with serve_resumable(store=store) as running_scene:
        talk = await open_session(running_scene.http)
        async with talk.open_stream() as stream:
            running_scene.tools.register(make_entry("second"))
            with anyio.fail_after(TIMEOUT):
                first = await anext(select_messages(read_events(stream)))
        assert summarize(first) == "notifications/tools/list_changed"
        running_scene.tools.register(make_entry("third"))
        await store.wait_for_writes(INITIALIZE + 2)
        async with talk.open_stream(first.id) as stream:
            with anyio.fail_after(TIMEOUT):
                second = await anext(select_messages(read_events(stream)))
        assert summarize(second) == summarize(first)
        assert second.id != first.id


async def test_streams_without_resumption_have_no_event_ids_and_are_not_closed() -> None:
    work = StepTool()
    sessions = SessionOptions(resuming=None)
    async with (
        serve_http(build_registry(make_entry("work", work)), sessions=sessions) as (base, _),
        open_http(base) as http,
    ):
        talk = await open_session(http)
        work.report(1)
        work.close_stream()
        work.finish()
        async with talk.stream_call(1) as stream:
            with anyio.fail_after(TIMEOUT):
                stream_events = [event async for event in read_events(stream)]
        assert [(event.id, event.retry, summarize(event)) for event in stream_events] == [("", "", 1), ("", "", "done")]


class Slow(ObservedStore):
    """A store with a gate for reading values."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.may = anyio.Event(), anyio.Event()

    async def get(self, key: str) -> bytes | None:
        self.asked.set()
        await self.may.wait()
        return await super().get(key)


async def test_new_messages_follow_the_replayed_ones() -> None:
    store = Slow()
    async with serve_resumable(store=store) as running_scene:
        talk = await open_session(running_scene.http)
        first = await disconnect_after_one_step(talk, running_scene.work)
        running_scene.work.report(2)
        await store.wait_for_writes(INITIALIZE + 2)
        async with talk.open_stream(first.id) as stream:
            await wait_for_event(store.asked)
            running_scene.work.report(3)
            running_scene.work.finish()
            await store.wait_for_writes(INITIALIZE + 4)
            store.may.set()
            assert await read_summaries(stream) == [2, 3, "done"]


async def test_a_second_resumption_during_the_replay_takes_the_stream_over() -> None:
    store = Slow()
    async with serve_resumable(store=store) as running_scene:
        talk = await open_session(running_scene.http)
        first = await disconnect_after_one_step(talk, running_scene.work)
        running_scene.work.report(2)
        running_scene.work.finish()
        await store.wait_for_writes(INITIALIZE + 3)
        async with talk.open_stream(first.id) as earlier:
            await wait_for_event(store.asked)
            async with talk.open_stream(first.id) as later:
                assert await read_summaries(earlier) == []
                store.may.set()
                assert await read_summaries(later) == [2, "done"]


async def test_the_shutdown_does_not_wait_for_a_client_with_its_response() -> None:
    late = anyio.Event()

    async def answer_first(data: Any, ctx: CallContext) -> str:
        async def close_late() -> None:
            await late.wait()
            await ctx.close_stream()

        running_scene.tasks.append(close_late)
        return "done"

    tools = build_registry(make_entry("work", answer_first))
    async with serve_http(tools) as (base, app), open_http(base) as http:
        running_scene = Left()
        talk = await open_session(http)
        async with talk.stream_call(1) as stream:
            assert await read_summaries(stream) == ["done"]
        late.set()
        await running_scene.tasks[0]()
        assert await app.counter.wait_until_idle(TIMEOUT)


class Left:
    """StepTool of a call after its response."""

    def __init__(self) -> None:
        self.tasks: list[Callable[[], Awaitable[None]]] = []


async def test_the_end_of_a_session_ends_the_wait_for_its_reconnection() -> None:
    async with serve_resumable() as running_scene:
        talk = await open_session(running_scene.http)
        async with talk.stream_call(1) as stream:
            running_scene.work.close_stream()
            running_scene.work.close_stream()
            with anyio.fail_after(TIMEOUT):
                assert [event.data async for event in read_events(stream)] == [""]
        assert not await running_scene.app.counter.wait_until_idle(0)
        assert await talk.delete() == 200
        assert await running_scene.app.counter.wait_until_idle(TIMEOUT)


def count_streams() -> int:
    gc.collect()
    return sum(type(first) is SessionStream for first in gc.get_objects())


async def test_a_session_of_many_calls_does_not_grow() -> None:
    before = count_streams()
    async with serve_resumable(events=4) as running_scene:
        talk = await open_session(running_scene.http)
        for number in range(100):
            async with talk.stream_call(number, "there") as stream:
                assert await read_summaries(stream) == ["there"]
        # These are the streams of 4 messages, the standalone one, and the latest.
        assert count_streams() - before <= 6


async def test_the_standalone_stream_is_resumed_although_the_client_sends_unsolicited_responses() -> None:
    store = ObservedStore()
    async with serve_resumable(store=store) as running_scene:
        talk = await open_session(running_scene.http)
        async with talk.open_stream() as stream:
            first_event = await anext(read_events(stream))
        assert not first_event.data
        message = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "not JSON"}}
        assert (await running_scene.http.post("/mcp", json=message, headers=talk.headers)).status_code == 202
        running_scene.tools.register(make_entry("second"))
        await store.wait_for_writes(INITIALIZE + 1)
        async with talk.open_stream(first_event.id) as stream:
            stream_events = select_messages(read_events(stream))
            with anyio.fail_after(TIMEOUT):
                assert summarize(await anext(stream_events)) == "notifications/tools/list_changed"
                running_scene.tools.register(make_entry("third"))
                assert summarize(await anext(stream_events)) == "notifications/tools/list_changed"


async def test_a_connection_that_is_cancelled_while_it_writes_does_not_delay_the_others() -> None:
    async def write_nothing(message: Any = None) -> Any:
        await anyio.sleep_forever()

    stream = EventStream(HttpRequest({"method": "GET", "headers": []}, write_nothing, write_nothing))
    async with anyio.create_task_group() as waiting:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream.begin)
            await anyio.wait_all_tasks_blocked()
            stream.put(b"an event")
            waiting.start_soon(stream.drain)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        waiting.cancel_scope.deadline = anyio.current_time() + TIMEOUT
    assert not waiting.cancel_scope.cancelled_caught


async def test_messages_after_the_response_of_a_call_are_dropped() -> None:
    tools, tasks = ToolRegistry(), []

    @tool(registry=tools)
    async def leave(ctx: CallContext) -> str:
        """Leaves a question open."""
        tasks.append(asyncio.create_task(ctx.ask("Who?")))
        await anyio.wait_all_tasks_blocked()
        return "left"

    async with serve_http(tools) as (base, _), open_http(base) as http:
        talk = await open_session(http, elicitation={})
        async with talk.stream_call(1, "leave") as stream:
            first = await anext(read_events(stream))
        await asyncio.gather(*tasks, return_exceptions=True)
        assert await resume(talk, first.id) == ["elicitation/create", "left"]


class SlowStore:
    """A store that writes nothing until `goes_on` is set."""

    def __init__(self) -> None:
        self.goes_on = anyio.Event()
        self.calls: list[tuple[str, str]] = []

    async def get(self, key: str) -> bytes | None:
        return None

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        self.calls.append(("set", key))
        await self.goes_on.wait()

    async def add(self, key: str, value: bytes, ttl: float) -> bool:
        return True

    async def delete(self, key: str) -> None:
        self.calls.append(("delete", key))


async def test_messages_that_expire_before_a_slow_store_has_them_are_not_written() -> None:
    store = SlowStore()
    async with own_tasks() as tasks:
        stored = StoredEvents(store, tasks, ttl=60)
        for key in "abcd":
            stored.write_event(key, b"a message")
            await anyio.wait_all_tasks_blocked()
        for key in "abc":
            stored.delete_event(key)
        store.goes_on.set()
        await stored.wait_until_written()
    assert store.calls == [("set", "a"), ("delete", "a"), ("set", "d")]
