"""A source reconnects, and calls wait for it. Time is virtual: trio's clock jumps while all tasks wait."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
import trio.testing

from mcp_bridge._contracts.errors import SourceError, ToolUnavailable
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.source import Offer, SourceContext, SourceState
from mcp_bridge._protocol.peer.connection import Message
from mcp_bridge._sources.upstream.options import UpstreamOptions
from mcp_bridge._sources.upstream.source import UpstreamSource
from mcp_bridge._upstream.messages import Receiver

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", [("trio", {"clock": trio.testing.MockClock(autojump_threshold=0)})]),
]
RESULTS: dict[str, Any] = {
    "server/discover": None,
    "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}},
    "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": []},
}


class FakeServer:
    """A server that is reachable or not, with the times of all connection attempts."""

    label = "fake"

    def __init__(self) -> None:
        self.attempts: list[float] = []
        self.is_up = False
        self.end: Callable[[str], None] = lambda reason: None
        self._receive: Receiver = lambda message, origin: True
        self.stream = self

    @asynccontextmanager
    async def open_channel(self, receive: Receiver, on_end: Callable[[str], None]) -> AsyncIterator[FakeServer]:
        self.attempts.append(anyio.current_time())
        if not self.is_up:
            raise SourceError("it is down")
        self._receive, self.end = receive, on_end
        yield self

    def adopt_version(self, version: str) -> None:
        pass

    def send(self, message: Message) -> None:
        if "id" in message:
            result = RESULTS[message["method"]]
            outcome = {"error": {"code": -32601, "message": "unknown"}} if result is None else {"result": result}
            self._receive({"jsonrpc": "2.0", "id": message["id"], **outcome}, None)

    def finish(self, response: Message | None) -> None:
        pass

    async def drain(self) -> None:
        pass

    async def close(self) -> None:
        pass


@asynccontextmanager
async def run_source(server: FakeServer) -> AsyncIterator[tuple[UpstreamSource, list[Offer]]]:
    """Run the source of a server. Yield it and its offers."""
    source, offers = UpstreamSource("server", UpstreamOptions(command="unused"), SourceContext()), list[Offer]()
    source._address = server
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(source.run, offers.append)
        yield source, offers
        tasks.cancel_scope.cancel()


async def call(source: UpstreamSource) -> None:
    await source.forward("tools/call", {"name": "echo"}, RunningCall())


async def measure_failure(source: UpstreamSource) -> float:
    """Make a failing call, and return its duration."""
    began = anyio.current_time()
    with pytest.raises(ToolUnavailable, match="The server 'server' is not available: it is down"):
        await call(source)
    return anyio.current_time() - began


async def test_each_wait_is_about_twice_the_last_until_a_maximum() -> None:
    server = FakeServer()
    async with run_source(server):
        await anyio.sleep(600)
    waits = [after - before for before, after in zip(server.attempts, server.attempts[1:], strict=False)]
    for number, wait in enumerate(waits):
        assert min(0.5 * 2**number, 60) - 0.01 < wait < min(0.5 * 2**number + 0.5, 60) + 0.01
    assert len(waits) >= 14


async def test_waits_differ_between_connections() -> None:
    firsts = set()
    for _ in range(5):
        server = FakeServer()
        async with run_source(server):
            await anyio.sleep(2)
        firsts.add(server.attempts[1] - server.attempts[0])
    assert len(firsts) == 5


async def test_a_server_that_comes_back_is_used_by_the_next_call_within_a_second() -> None:
    server = FakeServer()
    async with run_source(server) as (source, _):
        await anyio.sleep(300)
        assert source.status.state is SourceState.BROKEN
        server.is_up = True
        began = anyio.current_time()
        await call(source)
        assert anyio.current_time() - began < 1
        assert source.status.state is SourceState.READY


async def test_calls_to_a_broken_server_fail_immediately_after_the_first() -> None:
    server = FakeServer()
    async with run_source(server) as (source, _):
        await anyio.sleep(30)
        attempts, durations = len(server.attempts), list[float]()

        async def measure() -> None:
            durations.append(await measure_failure(source))

        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(measure)
        assert sorted(durations)[:9] == [0] * 9
        assert max(durations) < 1
        assert len(server.attempts) <= attempts + 1


async def test_a_stable_connection_is_restored_immediately() -> None:
    server = FakeServer()
    server.is_up = True
    async with run_source(server) as (source, _):
        await anyio.sleep(60)
        server.end("it has crashed")
        began = anyio.current_time()
        await call(source)
        assert anyio.current_time() == began
        assert source.status.failures == 1


async def test_connections_that_end_soon_are_restored_more_and_more_slowly() -> None:
    server = FakeServer()
    server.is_up = True
    async with run_source(server) as (source, _):
        for _ in range(6):
            while source.status.state is not SourceState.READY:  # noqa: ASYNC110 - a status has no event
                await anyio.sleep(0.1)
            server.end("it has crashed")
            await anyio.sleep(0.1)
        assert source.status.state is SourceState.BROKEN
        assert server.attempts[-1] - server.attempts[0] > 0.5 + 1 + 2 + 4 + 8


async def test_calls_wait_for_the_connection_no_longer_than_five_seconds() -> None:
    class HangingServer(FakeServer):
        def send(self, message: Message) -> None:
            pass

    server = HangingServer()
    server.is_up = True
    async with run_source(server) as (source, _):
        began = anyio.current_time()
        with pytest.raises(ToolUnavailable, match="it is still starting"):
            await call(source)
        assert anyio.current_time() - began == pytest.approx(5)


async def test_the_last_offer_stays_published_with_the_problem() -> None:
    server = FakeServer()
    server.is_up = True
    async with run_source(server) as (source, offers):
        await anyio.sleep(1)
        server.is_up = False
        server.end("it has crashed")
        await anyio.sleep(1)
        assert [tool.name for tool in offers[-1].tools] == ["echo"]
        assert offers[-1].problems == ["the server is not connected: it is down"]
        assert source.status.state is SourceState.DEGRADED
        await anyio.sleep(60)
        assert source.status.state is SourceState.BROKEN
        assert [tool.name for tool in offers[-1].tools] == ["echo"]


async def test_a_client_that_lists_tools_causes_an_attempt_within_a_second() -> None:
    server = FakeServer()
    async with run_source(server) as (source, _):
        await anyio.sleep(300)
        server.is_up = True
        began = anyio.current_time()
        source.request_attempt()
        while source.status.state is not SourceState.READY:  # noqa: ASYNC110 - a status has no event
            await anyio.sleep(0.01)
        assert anyio.current_time() - began < 1


async def test_the_first_call_after_a_list_request_waits_for_the_attempt() -> None:
    server = FakeServer()
    async with run_source(server) as (source, _):
        await anyio.sleep(300)
        server.is_up = True
        source.request_attempt()
        await call(source)


async def test_a_client_that_lists_all_the_time_causes_few_attempts() -> None:
    server = FakeServer()
    async with run_source(server) as (source, _):
        for _ in range(600):
            source.request_attempt()
            await anyio.sleep(0.1)
    assert len(server.attempts) <= 5 + 60 / 0.8
