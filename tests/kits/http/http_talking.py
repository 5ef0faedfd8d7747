"""A handshake-era client that speaks plain HTTP, so that it can break off where the official one would not."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx2

from mcp_bridge import CallContext
from mcp_bridge._storage.stores.memory import MemoryStore
from tests.kits.constants import HTTP_HEADERS, TIMEOUT
from tests.kits.http.http_hosting import initialize

PRIMED = "2025-11-25"
UNPRIMED = "2025-06-18"


@dataclass(frozen=True)
class Event:
    """One event of a stream; `data` is a JSON-RPC message, or None where the event only primes."""

    id: str = ""
    retry: str = ""
    data: dict[str, Any] | None = None

    @property
    def says(self) -> Any:
        """What matters of the message: a step of progress, an answer's text, an error's code, or a method."""
        assert self.data is not None
        if "result" in self.data:
            return self.data["result"]["content"][0]["text"]
        if "error" in self.data:
            return self.data["error"]["code"]
        return self.data["params"]["progress"] if "progress" in self.data.get("params", {}) else self.data["method"]


async def events(answer: httpx2.Response) -> AsyncIterator[Event]:
    """Each event of a stream, until it ends."""
    found: dict[str, Any] = {}
    async for line in answer.aiter_lines():
        name, _, value = line.partition(":")
        value = value.strip()
        if name == "data":
            found["data"] = json.loads(value) if value else None
        elif name in ("id", "retry"):
            found[name] = value
        elif not line and found:
            yield Event(**found)
            found = {}


async def heard(answer: httpx2.Response) -> list[Any]:
    """All that the rest of a stream says."""
    with anyio.fail_after(TIMEOUT):
        return [event.says async for event in events(answer) if event.data is not None]


class Talk:
    """One session."""

    def __init__(self, http: httpx2.AsyncClient, headers: dict[str, str]) -> None:
        self.http = http
        self.headers = headers

    def call(self, number: int, tool: str = "work") -> AbstractAsyncContextManager[httpx2.Response]:
        """The stream of a call."""
        params = {"name": tool, "arguments": {}, "_meta": {"progressToken": number}}
        message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        return self.http.stream("POST", "/mcp", json=message, headers=self.headers)

    def listen(self, last: str | None = None) -> AbstractAsyncContextManager[httpx2.Response]:
        """The standalone stream, or the one that the event is of."""
        resumed = [(b"Last-Event-ID", last.encode("latin-1"))] if last is not None else []
        headers = [(name.encode(), value.encode()) for name, value in self.headers.items()]
        return self.http.stream("GET", "/mcp", headers=[*headers, *resumed])

    async def rest(self, last: str) -> list[Any]:
        """All that a resumed stream says until it ends."""
        async with self.listen(last) as stream:
            assert stream.status_code == 200
            return await heard(stream)

    async def end(self) -> int:
        """End the session."""
        return (await self.http.delete("/mcp", headers=self.headers)).status_code

    async def ping(self) -> int:
        """The status of a request."""
        message = {"jsonrpc": "2.0", "id": "ping", "method": "ping"}
        return (await self.http.post("/mcp", json=message, headers=self.headers)).status_code


async def opened(http: httpx2.AsyncClient, version: str = PRIMED, **capabilities: Any) -> Talk:
    """A session that has shaken hands."""
    hello = initialize(version)
    hello["params"]["capabilities"] |= capabilities
    answer = await http.post("/mcp", json=hello, headers=HTTP_HEADERS)
    assert answer.status_code == 200
    session = {"Mcp-Session-Id": answer.headers["mcp-session-id"], "MCP-Protocol-Version": version}
    talk = Talk(http, {**HTTP_HEADERS, **session})
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert (await http.post("/mcp", json=ready, headers=talk.headers)).status_code == 202
    return talk


@contextlib.asynccontextmanager
async def client_of(base: str) -> AsyncIterator[httpx2.AsyncClient]:
    """A plain client that waits, but not for ever."""
    async with httpx2.AsyncClient(base_url=base, timeout=TIMEOUT) as http:
        yield http


class Work:
    """A tool that does what the test says, one thing after the other: `step`, `close`, and `end` for its answer."""

    def __init__(self) -> None:
        self._say, self._hear = anyio.create_memory_object_stream[Any](100)
        self.begun, self.cancelled = anyio.Event(), anyio.Event()

    async def __call__(self, data: Any, ctx: CallContext) -> str:
        self.begun.set()
        try:
            async for said in self._hear:
                if said == "close":
                    await ctx.close_stream()
                else:
                    await ctx.report_progress(said)
        except anyio.get_cancelled_exc_class():
            self.cancelled.set()
            raise
        return "done"

    def steps(self, *numbers: int) -> None:
        """Report progress."""
        for number in numbers:
            self._say.send_nowait(number)

    def close(self) -> None:
        """Close the stream of the call."""
        self._say.send_nowait("close")

    def end(self) -> None:
        """Answer."""
        self._say.close()

    def __del__(self) -> None:
        self._say.close()
        self._hear.close()


@dataclass
class Clock:
    """Time that passes when it is told to."""

    now: float = field(default=1000.0)

    def __call__(self) -> float:
        return self.now


class Watched(MemoryStore):
    """A store that tells when it has kept so many values, and under which keys there are some."""

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

    async def has_kept(self, count: int) -> None:
        """Wait until it has been given so many values, the handshake's answer among them."""
        with anyio.fail_after(TIMEOUT):
            while self._count < count:
                self._more = anyio.Event()
                await self._more.wait()
