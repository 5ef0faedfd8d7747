"""The legacy HTTP+SSE transport from outside: an endpoint event, posts, and invalid requests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx2
import pytest

from tests.kits.constants import HTTP_HEADERS, TIMEOUT
from tests.kits.http.http_hosting import Gate, build_registry, make_entry, make_initialize, serve_http
from tests.kits.waiting import wait_for_event


async def read_events(answer: httpx2.Response) -> AsyncIterator[tuple[str, str]]:
    """Yield the name and the data of each event."""
    name = ""
    async for line in answer.aiter_lines():
        key, _, value = line.partition(": ")
        if key == "event":
            name = value
        elif key == "data":
            yield name, value


@pytest.fixture
def timeout() -> Any:
    """Return a timeout for all phases of a request, including the wait for events."""
    return httpx2.Timeout(TIMEOUT)


async def test_the_stream_begins_with_the_address_for_messages_and_carries_responses(timeout: httpx2.Timeout) -> None:
    async with (
        serve_http(build_registry(make_entry("there"))) as (base, _),
        httpx2.AsyncClient(base_url=base, timeout=timeout) as http,
        http.stream("GET", "/sse") as stream,
    ):
        assert stream.headers["content-type"].startswith("text/event-stream")
        stream_events = read_events(stream)
        name, address = await anext(stream_events)
        assert name == "endpoint"
        assert address.startswith("/messages?session_id=")
        posted = await http.post(address, json=make_initialize("2024-11-05"), headers=HTTP_HEADERS)
        assert posted.status_code == 202
        name, answer = await anext(stream_events)
        assert name == "message"
        assert '"protocolVersion":"2024-11-05"' in answer


@pytest.mark.parametrize(
    ("query", "expected"),
    [("", 400), ("?session_id=", 400), ("?session_id=me", 400), (f"?session_id={'0' * 32}", 404)],
)
async def test_a_post_without_a_session_is_rejected(query: str, expected: int, timeout: httpx2.Timeout) -> None:
    async with serve_http(build_registry()) as (base, app), httpx2.AsyncClient(base_url=base, timeout=timeout) as http:
        assert (
            await http.post(f"/messages{query}", json=make_initialize(), headers=HTTP_HEADERS)
        ).status_code == expected
        assert await app.counter.wait_until_idle(TIMEOUT)


async def test_a_malformed_message_is_rejected_and_the_stream_stays(timeout: httpx2.Timeout) -> None:
    async with (
        serve_http(build_registry(make_entry("there"))) as (base, app),
        httpx2.AsyncClient(base_url=base, timeout=timeout) as http,
        http.stream("GET", "/sse") as stream,
    ):
        stream_events = read_events(stream)
        _, address = await anext(stream_events)
        assert (await http.post(address, content=b"{", headers=HTTP_HEADERS)).status_code == 400
        assert (await http.post(address, json=make_initialize(), headers=HTTP_HEADERS)).status_code == 202
        assert '"serverInfo"' in (await anext(stream_events))[1]
        assert await app.counter.wait_until_idle(TIMEOUT)


async def test_a_client_with_a_broken_stream_is_removed_and_its_calls_are_cancelled(timeout: httpx2.Timeout) -> None:
    gate = Gate()
    async with (
        serve_http(build_registry(make_entry("wait", gate))) as (base, app),
        httpx2.AsyncClient(base_url=base, timeout=timeout) as http,
    ):
        async with http.stream("GET", "/sse") as stream:
            stream_events = read_events(stream)
            _, address = await anext(stream_events)
            await http.post(address, json=make_initialize(), headers=HTTP_HEADERS)
            await anext(stream_events)
            await http.post(
                address, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=HTTP_HEADERS
            )
            call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "wait", "arguments": {}}}
            await http.post(address, json=call, headers=HTTP_HEADERS)
            await wait_for_event(gate.begun)
            assert not await app.counter.wait_until_idle(0)
        await wait_for_event(gate.cancelled)
        assert await app.counter.wait_until_idle(TIMEOUT)
        with anyio.fail_after(TIMEOUT):
            while (await http.post(address, json=call, headers=HTTP_HEADERS)).status_code != 404:
                await anyio.lowlevel.checkpoint()


async def test_the_shutdown_waits_only_for_connected_clients(
    timeout: httpx2.Timeout,
) -> None:
    gate = Gate()
    async with (
        serve_http(build_registry(make_entry("wait", gate), make_entry("stay", StubbornGate(gate)))) as (base, app),
        httpx2.AsyncClient(base_url=base, timeout=timeout) as http,
        http.stream("GET", "/sse") as stream,
    ):
        async with http.stream("GET", "/sse") as leaving:
            await call_on(http, leaving, "stay")
            await wait_for_event(gate.begun)
            assert not await app.counter.wait_until_idle(0)
        # The tool ignores its cancellation, but its client is gone.
        await wait_for_event(gate.cancelled)
        assert await app.counter.wait_until_idle(TIMEOUT)
        stream_events = await call_on(http, stream, "wait")
        assert not await app.counter.wait_until_idle(0)
        gate.release.set()
        assert "released" in (await anext(stream_events))[1]
        assert await app.counter.wait_until_idle(TIMEOUT)


class StubbornGate:
    """A handler that waits for the gate, and ignores its cancellation until then."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    async def __call__(self, data: Any) -> str:
        try:
            return await self.gate(data)
        finally:
            with anyio.CancelScope(shield=True):
                await self.gate.release.wait()


async def call_on(http: httpx2.AsyncClient, stream: httpx2.Response, tool: str) -> AsyncIterator[tuple[str, str]]:
    """Initialize, call a tool, and return the further events of the stream."""
    stream_events = read_events(stream)
    _, address = await anext(stream_events)
    await http.post(address, json=make_initialize(), headers=HTTP_HEADERS)
    await anext(stream_events)
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": {}}}
    await http.post(address, json=call, headers=HTTP_HEADERS)
    return stream_events
