"""For tests of HTTP streams: a tool with steps under control of the test, and an observable store."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx2

from mcp_bridge import CallContext
from mcp_bridge._storage.stores.memory import MemoryStore
from tests.client.http_client import Event, HttpSession, read_events
from tests.kits.constants import TIMEOUT

UNPRIMED = "2025-06-18"
"""A version whose streams do not begin with an event that has only an id."""


def summarize(event: Event) -> Any:
    """Return the essence of a message: a step of progress, the text of a result, the code of an error, or a method."""
    message = event.message
    if "result" in message:
        return message["result"]["content"][0]["text"]
    if "error" in message:
        return message["error"]["code"]
    if "progress" in message.get("params", {}):
        return message["params"]["progress"]
    return message["method"]


async def read_summaries(response: httpx2.Response) -> list[Any]:
    """Read a stream to its end and summarize its messages."""
    with anyio.fail_after(TIMEOUT):
        return [summarize(event) async for event in read_events(response) if event.data]


async def resume(session: HttpSession, last_event_id: str) -> list[Any]:
    """Resume a stream and summarize its messages until it ends."""
    async with session.open_stream(last_event_id) as stream:
        assert stream.status_code == 200
        return await read_summaries(stream)


@contextlib.asynccontextmanager
async def open_http(base: str) -> AsyncIterator[httpx2.AsyncClient]:
    """Yield an HTTP client of a server."""
    async with httpx2.AsyncClient(base_url=base, timeout=TIMEOUT) as http:
        yield http


class StepTool:
    """A tool under the control of a test: it reports progress, closes its stream and returns on request."""

    def __init__(self) -> None:
        self._sink, self._source = anyio.create_memory_object_stream[Any](100)
        self.begun, self.cancelled = anyio.Event(), anyio.Event()

    async def __call__(self, data: Any, ctx: CallContext) -> str:
        self.begun.set()
        try:
            async for step in self._source:
                if step == "close":
                    await ctx.close_stream()
                else:
                    await ctx.report_progress(step)
        except anyio.get_cancelled_exc_class():
            self.cancelled.set()
            raise
        return "done"

    def report(self, *numbers: int) -> None:
        """Report progress."""
        for number in numbers:
            self._sink.send_nowait(number)

    def close_stream(self) -> None:
        """Close the stream of the call."""
        self._sink.send_nowait("close")

    def finish(self) -> None:
        """Return the result."""
        self._sink.close()

    def __del__(self) -> None:
        self._sink.close()
        self._source.close()


class ObservedStore(MemoryStore):
    """A store with observable keys and an observable number of writes."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.keys: set[str] = set()
        self._count = 0
        self._more = anyio.Event()

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        await super().set(key, value, ttl)
        self.keys.add(key)
        self._count += 1
        self._more.set()

    async def delete(self, key: str) -> None:
        await super().delete(key)
        self.keys.discard(key)

    async def wait_for_writes(self, count: int) -> None:
        """Wait until it has had so many writes, including the response to `initialize`."""
        with anyio.fail_after(TIMEOUT):
            while self._count < count:
                self._more = anyio.Event()
                await self._more.wait()
