"""The raw client over HTTP: Streamable HTTP in both eras, and the legacy transport of an SSE stream and POSTs."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.abc
import httpx2

from tests.client.raw_client import Json, RawClient, open_task_group
from tests.kits.constants import CLIENT_INFO, HANDSHAKE, HTTP_HEADERS, META_PREFIX, TIMEOUT


@dataclass
class Event:
    """One server-sent event."""

    name: str = "message"
    data: str = ""
    id: str = ""
    retry: str = ""

    @property
    def message(self) -> Json:
        """The JSON-RPC message of the event."""
        message: Json = json.loads(self.data)
        return message


@dataclass
class HttpResponse:
    """The response to one POST or GET; `ended` is set at the end of its stream."""

    status: int
    headers: httpx2.Headers
    events: list[Event] = field(default_factory=list)
    ended: anyio.Event = field(default_factory=anyio.Event)


async def read_events(response: httpx2.Response) -> AsyncIterator[Event]:
    """Yield each event of a stream."""
    event = Event()
    async for line in _read_lines(response):
        if not line:
            if event != Event():
                yield event
            event = Event()
            continue
        key, _, value = line.partition(":")
        if key == "event":
            key = "name"
        if key in ("name", "data", "id", "retry"):
            setattr(event, key, value.removeprefix(" "))


async def _read_lines(response: httpx2.Response) -> AsyncIterator[str]:
    # httpx2 also splits lines at other characters; in an event stream only line feeds end a line.
    incomplete_line = b""
    async for data in response.aiter_bytes():
        *lines, incomplete_line = (incomplete_line + data).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r").decode()


def make_standard_headers(message: Any) -> dict[str, str]:
    """Return the headers for a stateless message, which repeat parts of it (basic/transports, "Standard headers")."""
    params = message.get("params", {}) if isinstance(message, dict) else {}
    version = params.get("_meta", {}).get(f"{META_PREFIX}protocolVersion")
    name = params.get("name", params.get("uri"))
    headers = {"MCP-Protocol-Version": version, "Mcp-Method": message.get("method"), "Mcp-Name": name}
    return {key: encode_header(value) for key, value in headers.items() if isinstance(value, str)}


def encode_header(value: str) -> str:
    """Return a header value: as it is if it is printable ASCII, else in Base64 between sentinels."""
    is_plain = value.isascii() and value.isprintable() and value == value.strip() and not value.startswith("=?base64?")
    if is_plain:
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="


class HttpClient(RawClient):
    """Streamable HTTP: every message is one POST, with the headers of `headers`.

    `responses` has the HTTP response to each request, by the id of the request.
    """

    transport = "http"

    def __init__(self, base: str, http: httpx2.AsyncClient, tasks: anyio.abc.TaskGroup, **options: Any) -> None:
        super().__init__(**options)
        self.url = f"{base}/mcp"
        self.http = http
        self.headers: dict[str, str] = {}
        self.responses: dict[Any, HttpResponse] = {}
        self._tasks = tasks
        self._scopes: dict[Any, anyio.CancelScope] = {}

    async def initialize(self, version: str = HANDSHAKE) -> Json:
        """Perform the handshake and open the stream for server messages outside of requests."""
        result = await super().initialize(version)
        if not self.stateless:
            self.headers["MCP-Protocol-Version"] = result["protocolVersion"]
            await self.open_stream("GET")
        return result

    async def send(self, message: Any, **headers: str) -> None:
        """POST one message; requests are sent in the background."""
        if isinstance(message, dict) and "id" in message and "method" in message:
            self._tasks.start_soon(self._post, message, headers)
        else:
            await self._post(message, headers)

    async def cancel(self, request_id: int | str) -> None:
        """Close the stream of a stateless request; in the handshake era, send a notification."""
        if self.stateless:
            self.close_stream(request_id)
        else:
            await super().cancel(request_id)

    def close_stream(self, request_id: int | str) -> None:
        """Close the response stream of a request."""
        self._scopes[request_id].cancel()

    def make_headers(self, message: Any) -> dict[str, str]:
        """Return the headers of the POST of a message."""
        standard_headers = make_standard_headers(message) if self.stateless else {}
        return {**HTTP_HEADERS, **standard_headers, **self.headers}

    async def _post(self, message: Any, extra_headers: dict[str, str]) -> None:
        request_id = message.get("id") if isinstance(message, dict) else None
        headers = {**self.make_headers(message), **extra_headers}
        with anyio.CancelScope() as self._scopes[request_id]:
            async with self.http.stream("POST", self.url, json=message, headers=headers) as response:
                summary = self.responses[request_id] = HttpResponse(response.status_code, response.headers)
                if "mcp-session-id" in response.headers and not self.stateless:
                    self.headers["Mcp-Session-Id"] = response.headers["mcp-session-id"]
                await self._read(response, summary)

    async def _read(self, response: httpx2.Response, summary: HttpResponse) -> None:
        if response.headers.get("content-type", "").startswith("text/event-stream"):
            async for event in read_events(response):
                summary.events.append(event)
                if event.data:
                    self.record(event.message)
        else:
            body = await response.aread()
            if body:
                self.record(json.loads(body))
        summary.ended.set()

    async def open_stream(self, key: str, *, last_event_id: str = "") -> HttpResponse:
        """Open a stream with GET, optionally after an event; `responses` has it under `key`."""
        headers = {**HTTP_HEADERS, **self.headers}
        if last_event_id:
            headers["Last-Event-ID"] = last_event_id
        await self._tasks.start(self._read_stream, key, headers)
        return self.responses[key]

    async def _read_stream(self, key: str, headers: dict[str, str], *, task_status: anyio.abc.TaskStatus[None]) -> None:
        with anyio.CancelScope() as self._scopes[key]:
            async with self.http.stream("GET", self.url, headers=headers) as response:
                self.responses[key] = HttpResponse(response.status_code, response.headers)
                task_status.started()
                await self._read(response, self.responses[key])


class SseClient(RawClient):
    """The legacy transport: messages are posted, and all messages of the server come on one stream."""

    transport = "sse"

    def __init__(self, base: str, http: httpx2.AsyncClient, **options: Any) -> None:
        super().__init__(**options)
        self.base = base
        self.http = http
        self.address = ""

    async def send(self, message: Any) -> None:
        response = await self.http.post(f"{self.base}{self.address}", json=message, headers=HTTP_HEADERS)
        assert response.status_code == 202, response

    async def read(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        """Open the stream and record its messages."""
        async with self.http.stream("GET", f"{self.base}/sse", headers=HTTP_HEADERS) as response:
            async for event in read_events(response):
                if event.name == "endpoint":
                    self.address = event.data
                    task_status.started()
                else:
                    self.record(event.message)
        self.record_end()


@contextlib.asynccontextmanager
async def connect_over_http(base: str, *, initialize: bool = True, **options: Any) -> AsyncIterator[HttpClient]:
    """Yield a client over Streamable HTTP."""
    async with httpx2.AsyncClient(timeout=TIMEOUT) as http, open_task_group() as tasks:
        client = HttpClient(base, http, tasks, **options)
        if initialize:
            await client.initialize()
        yield client


@contextlib.asynccontextmanager
async def connect_over_sse(base: str, *, initialize: bool = True, **options: Any) -> AsyncIterator[SseClient]:
    """Yield a client over the legacy transport."""
    async with httpx2.AsyncClient(timeout=TIMEOUT) as http, open_task_group() as tasks:
        client = SseClient(base, http, **options)
        await tasks.start(client.read)
        if initialize:
            await client.initialize()
        yield client


class HttpSession:
    """A session of the handshake era. The test opens, reads and closes its response streams."""

    def __init__(self, http: httpx2.AsyncClient, headers: dict[str, str]) -> None:
        self.http = http
        self.headers = headers

    def stream_call(self, request_id: int, tool: str = "work") -> AbstractAsyncContextManager[httpx2.Response]:
        """Call a tool with a progress token and return the response stream."""
        params = {"name": tool, "arguments": {}, "_meta": {"progressToken": request_id}}
        message = {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}
        return self.http.stream("POST", "/mcp", json=message, headers=self.headers)

    def open_stream(self, last_event_id: str | None = None) -> AbstractAsyncContextManager[httpx2.Response]:
        """Open the standalone stream, or resume the stream of an event."""
        headers = [(name.encode(), value.encode()) for name, value in self.headers.items()]
        if last_event_id is not None:
            headers.append((b"Last-Event-ID", last_event_id.encode("latin-1")))
        return self.http.stream("GET", "/mcp", headers=headers)

    async def delete(self) -> int:
        """End the session and return the status."""
        return (await self.http.delete("/mcp", headers=self.headers)).status_code

    async def ping(self) -> int:
        """Return the status of a request."""
        message = {"jsonrpc": "2.0", "id": "ping", "method": "ping"}
        return (await self.http.post("/mcp", json=message, headers=self.headers)).status_code


async def open_session(http: httpx2.AsyncClient, version: str = HANDSHAKE, **capabilities: Any) -> HttpSession:
    """Do the handshake and return the session."""
    params = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": CLIENT_INFO}
    request = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    response = await http.post("/mcp", json=request, headers=HTTP_HEADERS)
    assert response.status_code == 200
    session_headers = {"Mcp-Session-Id": response.headers["mcp-session-id"], "MCP-Protocol-Version": version}
    session = HttpSession(http, {**HTTP_HEADERS, **session_headers})
    notification = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert (await http.post("/mcp", json=notification, headers=session.headers)).status_code == 202
    return session
