"""Raw JSON-RPC over HTTP: Streamable HTTP in both eras, and the legacy pair of a stream and posts."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.abc
import httpx2

from tests.kits.constants import HANDSHAKE, HTTP_HEADERS, META_PREFIX, TIMEOUT
from tests.kits.protocol.protocol_wire import Wire, beside


@dataclass
class Event:
    """One server-sent event."""

    name: str = "message"
    data: str = ""
    id: str | None = None
    retry: str | None = None


@dataclass
class Reply:
    """What one POST came to."""

    status: int
    headers: httpx2.Headers
    events: list[Event] = field(default_factory=list)
    ended: anyio.Event = field(default_factory=anyio.Event)


async def events(answer: httpx2.Response) -> AsyncIterator[Event]:
    """Each event of a stream."""
    event = Event()
    async for line in _lines(answer):
        if not line:
            if event != Event():
                yield event
            event = Event()
            continue
        key, _, value = line.partition(":")
        key = {"event": "name"}.get(key, key)
        if key in ("name", "data", "id", "retry"):
            setattr(event, key, value.removeprefix(" "))


async def _lines(answer: httpx2.Response) -> AsyncIterator[str]:
    """Each line; only line feeds end one, which httpx2 sees otherwise."""
    rest = b""
    async for data in answer.aiter_bytes():
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r").decode()


def standard_headers(message: Any) -> dict[str, str]:
    """The headers that mirror a stateless message, as far as it has what they mirror."""
    params = message.get("params", {}) if isinstance(message, dict) else {}
    version = params.get("_meta", {}).get(f"{META_PREFIX}protocolVersion")
    name = params.get("name", params.get("uri"))
    made = {"MCP-Protocol-Version": version, "Mcp-Method": message.get("method"), "Mcp-Name": name}
    return {key: encoded(value) for key, value in made.items() if isinstance(value, str)}


def encoded(value: str) -> str:
    """A header's value: as it is where it can be, else in Base64 between sentinels."""
    plain = value.isascii() and value.isprintable() and value == value.strip() and not value.startswith("=?base64?")
    return value if plain else f"=?base64?{base64.b64encode(value.encode()).decode()}?="


class HttpWire(Wire):
    """Streamable HTTP: every message is a POST of its own, with the headers of `always`.

    `replies` has how each request was answered.
    """

    transport = "http"

    def __init__(self, base: str, http: httpx2.AsyncClient, tasks: anyio.abc.TaskGroup, **options: Any) -> None:
        super().__init__(**options)
        self.url = f"{base}/mcp"
        self.http = http
        self.always: dict[str, str] = {}
        self.replies: dict[Any, Reply] = {}
        self._tasks = tasks
        self._scopes: dict[Any, anyio.CancelScope] = {}

    async def hello(self, version: str = HANDSHAKE) -> None:
        """The handshake, and the stream for what belongs to no request."""
        await super().hello(version)
        if not self.stateless:
            self.always["MCP-Protocol-Version"] = self.welcome["protocolVersion"]
            await self.listen("GET")

    async def send(self, message: Any, **headers: str) -> None:
        """POST one message; whatever comes back is heard."""
        if isinstance(message, dict) and "id" in message and "method" in message:
            self._tasks.start_soon(self._post, message, headers)
        else:
            await self._post(message, headers)

    async def cancel(self, request: int | str) -> None:
        """Close the stream of a stateless request; tell of it in the handshake era."""
        if self.stateless:
            self.hang_up(request)
        else:
            await super().cancel(request)

    def hang_up(self, request: int | str) -> None:
        """Close the stream of a request."""
        self._scopes[request].cancel()

    def headers(self, message: Any) -> dict[str, str]:
        """The headers of a message."""
        return {**HTTP_HEADERS, **(standard_headers(message) if self.stateless else {}), **self.always}

    async def _post(self, message: Any, headers: dict[str, str]) -> None:
        key = message.get("id") if isinstance(message, dict) else None
        given = {**self.headers(message), **headers}
        with anyio.CancelScope() as self._scopes[key]:
            async with self.http.stream("POST", self.url, json=message, headers=given) as answer:
                reply = self.replies[key] = Reply(answer.status_code, answer.headers)
                if "mcp-session-id" in answer.headers and not self.stateless:
                    self.always["Mcp-Session-Id"] = answer.headers["mcp-session-id"]
                await self._read(answer, reply)

    async def _read(self, answer: httpx2.Response, reply: Reply) -> None:
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            async for event in events(answer):
                reply.events.append(event)
                if event.data:
                    self.take(json.loads(event.data))
        elif body := await answer.aread():
            self.take(json.loads(body))
        reply.ended.set()

    async def listen(self, key: str, *, last: str = "") -> Reply:
        """Open a stream with GET, after the event of this id if it is given; its place in `replies` is `key`."""
        await self._tasks.start(self._listen, key, {"Last-Event-ID": last} if last else {})
        return self.replies[key]

    async def _listen(self, key: str, headers: dict[str, str], *, task_status: anyio.abc.TaskStatus[None]) -> None:
        given = {**HTTP_HEADERS, **self.always, **headers}
        with anyio.CancelScope() as self._scopes[key]:
            async with self.http.stream("GET", self.url, headers=given) as answer:
                self.replies[key] = Reply(answer.status_code, answer.headers)
                task_status.started()
                await self._read(answer, self.replies[key])


class SseWire(Wire):
    """The legacy pair: messages are posted, and everything comes on one stream."""

    transport = "sse"

    def __init__(self, base: str, http: httpx2.AsyncClient, **options: Any) -> None:
        super().__init__(**options)
        self.base = base
        self.http = http
        self.address = ""

    async def send(self, message: Any) -> None:
        """POST one message; the answer comes on the stream."""
        answer = await self.http.post(f"{self.base}{self.address}", json=message, headers=HTTP_HEADERS)
        assert answer.status_code == 202, answer

    async def listen(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        """Open the stream and read it."""
        async with self.http.stream("GET", f"{self.base}/sse", headers=HTTP_HEADERS) as answer:
            async for event in events(answer):
                if event.name == "endpoint":
                    self.address = event.data
                    task_status.started()
                else:
                    self.take(json.loads(event.data))
        self.over()


@contextlib.asynccontextmanager
async def http_wire(base: str, *, hello: bool = True, **options: Any) -> AsyncIterator[HttpWire]:
    """A raw connection over Streamable HTTP, begun."""
    async with httpx2.AsyncClient(timeout=TIMEOUT) as http, beside() as tasks:
        wire = HttpWire(base, http, tasks, **options)
        if hello:
            await wire.hello()
        yield wire


@contextlib.asynccontextmanager
async def sse_wire(base: str, *, hello: bool = True, **options: Any) -> AsyncIterator[SseWire]:
    """A raw connection over the legacy transport, begun."""
    async with httpx2.AsyncClient(timeout=TIMEOUT) as http, beside() as tasks:
        wire = SseWire(base, http, **options)
        await tasks.start(wire.listen)
        if hello:
            await wire.hello()
        yield wire
