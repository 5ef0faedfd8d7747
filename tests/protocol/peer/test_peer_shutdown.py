"""At its end, a connection cancels the requests in flight of both sides. A drain waits for them first."""

from __future__ import annotations

import gc
import warnings
from contextlib import suppress
from typing import Any

import anyio
import pytest

from mcp_bridge._contracts.jsonrpc import CONNECTION_CLOSED, RpcError
from mcp_bridge._protocol.peer.connection import IncomingRequest, PeerConnection, RequestCounter
from mcp_bridge._runtime.tasks import RETRY_INTERVAL, own_tasks
from tests.kits.loops import BOTH_LOOPS
from tests.kits.peer import PeerSide, RecordingStream, join_peers, let_run


@BOTH_LOOPS
async def test_closing_ends_the_requests_in_flight_of_both_sides() -> None:
    codes: list[int] = []

    async def ask(side: PeerSide) -> None:
        with pytest.raises(RpcError) as caught:
            await side.connection.request("wait")
        codes.append(caught.value.code)

    async with join_peers() as (left, right):
        cancelled: list[str] = []
        for name, side in (("left", left), ("right", right)):
            side.handlers["wait"] = _make_waiter(name, cancelled)
        async with anyio.create_task_group() as group:
            group.start_soon(ask, left)
            group.start_soon(ask, right)
            await let_run()
            left.connection.close()
            right.connection.close()
        await let_run()
        assert codes == [CONNECTION_CLOSED, CONNECTION_CLOSED]
        assert sorted(cancelled) == ["left", "right"]
        assert await left.counter.wait_until_idle(0)
        assert await right.counter.wait_until_idle(0)


def _make_waiter(name: str, cancelled: list[str]) -> Any:
    async def wait(request: IncomingRequest) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.append(name)

    return wait


@BOTH_LOOPS
async def test_closing_ends_ten_thousand_requests() -> None:
    cancelled: list[str] = []
    async with join_peers() as (left, right):
        right.handlers["wait"] = _make_waiter("right", cancelled)
        for number in range(10_000):
            left.output.send({"jsonrpc": "2.0", "id": number, "method": "wait"})
        await let_run()
        right.connection.close()
        right.connection.close()
        # A server has one counter for all clients. A request of another client keeps it busy.
        right.counter.add_request()
        assert not await right.counter.wait_until_idle(0)
        right.counter.remove_request()
        # The requests of the closed connection still end, but no shutdown waits for them.
        assert await right.counter.wait_until_idle(0)
        await let_run()
        assert (len(cancelled), right.output.sent) == (10_000, [])


@BOTH_LOOPS
async def test_a_closed_connection_sends_and_receives_nothing() -> None:
    async with join_peers() as (left, right):
        right.handlers["quick"] = lambda request: 1
        left.connection.close()
        left.connection.close()
        with pytest.raises(RpcError) as caught:
            await left.connection.request("quick")
        assert caught.value.code == CONNECTION_CLOSED
        left.connection.notify("notifications/changed")
        right.connection.notify("notifications/changed")
        await let_run()
        assert (left.output.sent, left.notifications) == ([], [])


@BOTH_LOOPS
async def test_cancelling_the_caller_after_the_end_sends_nothing() -> None:
    async with join_peers() as (left, right):
        right.handlers["wait"] = lambda request: anyio.sleep_forever()
        async with anyio.create_task_group() as group:
            group.start_soon(_ask_in_vain, left)
            await let_run()
            left.connection.close()
            group.cancel_scope.cancel()
        assert left.output.list_methods() == ["wait"]


async def _ask_in_vain(side: PeerSide) -> None:
    with suppress(RpcError):
        await side.connection.request("wait")


@BOTH_LOOPS
async def test_a_response_that_arrived_before_the_end_is_returned() -> None:
    results: list[Any] = []

    async def ask(side: PeerSide) -> None:
        results.append(await side.connection.request("wait"))

    async with join_peers() as (left, right), anyio.create_task_group() as group:
        right.handlers["wait"] = lambda request: anyio.sleep_forever()
        group.start_soon(ask, left)
        await let_run()
        left.connection.receive({"jsonrpc": "2.0", "id": left.output.sent[0]["id"], "result": "in time"})
        left.connection.close()
        await let_run()
        assert results == ["in time"]


@BOTH_LOOPS
async def test_a_drain_waits_for_the_requests_in_flight() -> None:
    release = anyio.Event()
    idle: list[bool] = []

    async def wait(request: IncomingRequest) -> str:
        await release.wait()
        return "done"

    async def drain(counter: RequestCounter) -> None:
        idle.append(await counter.wait_until_idle(60))

    async with join_peers() as (left, right), anyio.create_task_group() as group:
        right.handlers["wait"] = wait
        group.start_soon(left.connection.request, "wait")
        await let_run()
        group.start_soon(drain, right.counter)
        await let_run()
        assert idle == []
        release.set()
        await let_run()
        assert idle == [True]
        assert [message["result"] for message in right.output.sent] == ["done"]


@BOTH_LOOPS
async def test_a_drain_ends_when_its_time_is_over() -> None:
    async with join_peers() as (left, right):
        right.handlers["wait"] = lambda request: anyio.sleep_forever()
        left.output.send({"jsonrpc": "2.0", "id": 1, "method": "wait"})
        await let_run()
        assert not await right.counter.wait_until_idle(0.01)
        assert right.connection.get_request(1) is not None


@BOTH_LOOPS
async def test_a_drain_can_be_shortened() -> None:
    idle: list[bool] = []

    async def drain(counter: RequestCounter) -> None:
        idle.append(await counter.wait_until_idle(60))

    async with join_peers() as (left, right), anyio.create_task_group() as group:
        right.handlers["wait"] = lambda request: anyio.sleep_forever()
        left.output.send({"jsonrpc": "2.0", "id": 1, "method": "wait"})
        await let_run()
        group.start_soon(drain, right.counter)
        await let_run()
        right.counter.shorten_waits()
        await let_run()
        assert idle == [False]


@BOTH_LOOPS
async def test_the_end_of_the_tasks_ends_their_requests_even_before_their_first_step() -> None:
    steps: list[str] = []

    async def work(request: IncomingRequest) -> str:
        await anyio.lowlevel.checkpoint()
        steps.append("after the first wait")
        return "done"

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        side = PeerSide()
        stream = RecordingStream()
        side.handlers.update(work=work, wait=lambda request: anyio.sleep_forever())
        async with own_tasks() as tasks:
            side.connection = PeerConnection(side, stream, tasks, side.counter)
            side.connection.receive({"jsonrpc": "2.0", "id": 1, "method": "wait"})
            await let_run()
            side.connection.receive({"jsonrpc": "2.0", "id": 2, "method": "work"})
        assert await side.counter.wait_until_idle(0)
        assert (steps, stream.responses) == ([], [None, None])
        gc.collect()
    assert [str(warning.message) for warning in caught if warning.category is RuntimeWarning] == []


@BOTH_LOOPS
async def test_a_cleanup_that_is_shielded_is_completed() -> None:
    release, in_cleanup = anyio.Event(), anyio.Event()
    steps: list[str] = []

    async def work(request: IncomingRequest) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                in_cleanup.set()
                await release.wait()
                steps.append("cleaned up")

    async def end(side: PeerSide, stream: RecordingStream) -> None:
        async with own_tasks() as tasks:
            side.connection = PeerConnection(side, stream, tasks, side.counter)
            side.connection.receive({"jsonrpc": "2.0", "id": 1, "method": "work"})
            await let_run()
        steps.append("tasks have ended")

    side = PeerSide()
    side.handlers["work"] = work
    async with anyio.create_task_group() as group:
        group.start_soon(end, side, RecordingStream())
        await in_cleanup.wait()
        assert not await side.counter.wait_until_idle(3 * RETRY_INTERVAL)
        release.set()
    assert steps == ["cleaned up", "tasks have ended"]


async def test_a_cleanup_that_never_ends_is_interrupted() -> None:
    interrupted = anyio.Event()

    async def work(request: IncomingRequest) -> None:
        with anyio.CancelScope(shield=True):
            try:
                await anyio.sleep_forever()
            finally:
                interrupted.set()

    side, stream = PeerSide(), RecordingStream()
    side.handlers["work"] = work
    async with own_tasks(cleanup=0.01) as tasks:
        side.connection = PeerConnection(side, stream, tasks, side.counter)
        side.connection.receive({"jsonrpc": "2.0", "id": 1, "method": "work"})
        await let_run()
        side.connection.close()
    assert interrupted.is_set()
    assert stream.responses == [None]
