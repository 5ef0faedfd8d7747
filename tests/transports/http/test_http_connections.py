"""The HTTP/1.1 server below the app: its output, byte by byte, and the separation of requests."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_bridge._transports.http1.connection import ClientTimeouts
from mcp_bridge._transports.http1.pool import ConnectionPool

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
TIMEOUTS = ClientTimeouts(receive=1.0, send=5.0)
HOST = b"Host: localhost\r\n"


@pytest.fixture(scope="module", params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """Run a test on both event loops of the settings."""
    if request.param and sys.platform == "win32":
        pytest.skip("uvloop is not for Windows")
    return "asyncio", {"use_uvloop": request.param}


@contextlib.asynccontextmanager
async def connect_to_app(app: ASGIApp, **buffers: int) -> AsyncIterator[Streams]:
    """Serve this app, and yield a connection to it."""
    pool = ConnectionPool(app, TIMEOUTS)
    bound = socket.create_server(("127.0.0.1", 0))
    for size in buffers.values():
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
    server = await asyncio.get_running_loop().create_server(pool.open_connection, sock=bound)
    reader, writer = await asyncio.open_connection(*bound.getsockname())
    try:
        async with asyncio.timeout(10):
            yield reader, writer
    finally:
        writer.close()
        server.close()
        await pool.close(0.1)


async def exchange(app: ASGIApp, request: bytes) -> bytes:
    """Return everything from the server until the end of the connection."""
    async with connect_to_app(app) as (reader, writer):
        writer.write(request)
        return await reader.read()


def make_app(body: bytes = b"done", status: int = 200, **headers: str) -> ASGIApp:
    """Return an app that responds without reading the request. It lists the paths in `seen`."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        requests.append(scope["path"])
        fields = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": fields})
        await send({"type": "http.response.body", "body": body})

    requests: list[str] = []
    app.seen = requests  # type: ignore[attr-defined]
    return app


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Respond with the body of the request."""
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message["body"], message["more_body"]
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    await send({"type": "http.response.body", "body": body})


async def test_the_body_of_a_response_to_http_1_0_ends_with_the_connection() -> None:
    got = await exchange(make_app(connection="keep-alive"), b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    head, _, body = got.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head
    assert (head.count(b"connection:"), b"connection: close" in head) == (1, True)
    assert body == b"done"


async def test_an_http_1_0_client_that_asks_for_an_upgrade_is_still_one() -> None:
    got = await exchange(make_app(), b"GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n")
    assert got.endswith(b"\r\n\r\ndone")


@pytest.mark.parametrize(("version", "continues"), [(b"1.1", True), (b"1.0", False)])
async def test_only_http_1_1_clients_receive_100_continue(version: bytes, continues: bool) -> None:
    head = b"POST / HTTP/" + version + b"\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Length: 4\r\n\r\n"
    async with connect_to_app(echo) as (reader, writer):
        writer.write(head)
        # A client that sends the body immediately does not wait for 100 Continue.
        await asyncio.sleep(0.1)
        writer.write(b"body")
        got = await reader.read()
    assert got.startswith(b"HTTP/1.1 100 Continue\r\n\r\n") is continues
    assert got.endswith(b"body")


async def test_a_request_in_place_of_a_body_that_was_not_asked_for_is_not_run() -> None:
    app = make_app(content_length="4")
    head = b"POST /first HTTP/1.1\r\n" + HOST + b"Expect: 100-continue\r\nContent-Length: 10\r\n\r\n"
    async with connect_to_app(app) as (reader, writer):
        writer.write(head)
        first = await reader.readuntil(b"done")
        assert b"connection: close" in first
        writer.write(b"0123456789GET /second HTTP/1.1\r\n" + HOST + b"\r\n")
        assert await reader.read() == b""
    assert app.seen == ["/first"]  # type: ignore[attr-defined]


async def test_a_client_that_closes_after_the_response_receives_one_to_a_body_that_is_not_read() -> None:
    size = 20_000_000
    head = b"POST / HTTP/1.1\r\n" + HOST + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % size
    async with connect_to_app(make_app(status=413)) as (reader, writer):
        writer.write(head)
        for _ in range(size // 1_000_000):
            writer.write(b"a" * 1_000_000)
            await writer.drain()
        assert (await reader.read()).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    "remainder",
    [b"garbage\r\n\r\n", b"POST /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"],
    ids=["garbage", "a broken body"],
)
async def test_a_rejection_comes_after_the_responses_to_earlier_requests(remainder: bytes) -> None:
    app = make_app(content_length="4")
    got = await exchange(app, (b"GET /a HTTP/1.1\r\n" + HOST + b"\r\n") * 2 + remainder)
    assert re.findall(rb"HTTP/1.1 (\d+)", got) == [b"200", b"200", b"400"]
    assert app.seen == ["/a", "/a"]  # type: ignore[attr-defined]


async def test_the_queue_of_a_connection_does_not_grow_with_each_response() -> None:
    answered = 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal answered
        answered += 1
        await asyncio.sleep(0.005 if answered < 100 else 10)
        await make_app(content_length="4")(scope, receive, send)

    sent_bytes, requests = 0, (b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 1000 + b"\r\n\r\n") * 50
    async with connect_to_app(app, receive=65536) as (_, writer):
        connected = writer.get_extra_info("socket")
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                while sent_bytes < 20_000_000:
                    writer.write(requests)
                    await writer.drain()
                    sent_bytes += len(requests)
    assert sent_bytes < 2_000_000


@pytest.mark.parametrize(("length", "body"), [("10", b"short"), ("3", b"too long")])
async def test_a_response_of_another_length_than_declared_ends_the_connection(
    length: str, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    app = make_app(body, content_length=length)
    got = await exchange(app, (b"GET / HTTP/1.1\r\n" + HOST + b"\r\n") * 2)
    assert got.count(b"HTTP/1.1 200") == 1
    assert body not in got
    assert "not as long as its Content-Length" in caplog.text


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304)])
async def test_a_response_that_has_no_body_has_none(method: str, status: int) -> None:
    request = f"{method} / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    got = await exchange(make_app(b"body", status), request)
    assert got.endswith(b"\r\n\r\n")
    assert b"transfer-encoding" not in got


@pytest.mark.parametrize("value", ["a\r\nSet-Cookie: b", "a\nb", "a\0b"])
async def test_a_line_break_in_a_response_header_is_an_error_of_the_server(value: str) -> None:
    got = await exchange(make_app(x_header=value), b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
    assert got.startswith(b"HTTP/1.1 500 ")
    assert b"Set-Cookie" not in got


async def test_a_half_closed_connection_is_a_disconnection() -> None:
    messages: list[Any] = []
    disconnected = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while not messages or messages[-1]["type"] != "http.disconnect":
            messages.append(await receive())
        disconnected.set()

    async with connect_to_app(app) as (_, writer):
        writer.write(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
        writer.write_eof()
        await disconnected.wait()


async def test_connect_is_the_last_request_of_a_connection() -> None:
    app = make_app(content_length="4")
    got = await exchange(app, b"CONNECT /a HTTP/1.1\r\n" + HOST + b"\r\nGET /b HTTP/1.1\r\n" + HOST + b"\r\n")
    assert got.endswith(b"done")
    assert app.seen == ["/a"]  # type: ignore[attr-defined]


async def test_a_head_may_not_be_longer_because_it_comes_in_two_pieces() -> None:
    first = b"GET / HTTP/1.1\r\n" + HOST + b"X-A: " + b"a" * 30_000 + b"\r\nX-B: "
    app = make_app(content_length="4")
    for more_data, status in ((b"b" * 30_000, b"200"), (b"b" * 40_000, b"431")):
        async with connect_to_app(app) as (reader, writer):
            writer.write(first)
            await writer.drain()
            # Without the pause, both pieces may arrive in one.
            await asyncio.sleep(0.05)
            writer.write(more_data + b"\r\n\r\n")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 " + status)


async def test_a_client_that_is_still_sending_receives_the_rejection() -> None:
    async with connect_to_app(make_app()) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\n" + HOST + b"X: ")
        for _ in range(100):
            writer.write(b"a" * 100_000)
            await writer.drain()
        assert (await reader.read()).startswith(b"HTTP/1.1 431 ")


async def test_one_address_leaves_connections_to_others_although_all_its_requests_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release = asyncio.Event()

    async def respond_later(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/slow":
            await release.wait()
        await make_app()(scope, receive, send)

    async def send_request(path: bytes, source: str = "127.0.0.1") -> Streams:
        reader, writer = await asyncio.open_connection(*address, local_addr=(source, 0))
        writer.write(b"GET " + path + b" HTTP/1.1\r\n" + HOST + b"\r\n")
        return reader, writer

    monkeypatch.setattr("mcp_bridge._runtime.platform.system.read_descriptor_limit", lambda: 64)
    pool = ConnectionPool(respond_later, TIMEOUTS)
    bound = socket.create_server(("127.0.0.1", 0))
    address = bound.getsockname()
    server = await asyncio.get_running_loop().create_server(pool.open_connection, sock=bound)
    connections: list[Streams] = []
    async with asyncio.timeout(10):
        for _ in range(42):
            connections.append(await send_request(b"/slow"))
        while len(pool.tasks) < 42:  # noqa: ASYNC110 - the start of a request is not an event
            await asyncio.sleep(0.01)
        connections.append(await send_request(b"/quick"))
        assert b" 503 " in await connections[-1][0].readline()
        connections.append(await send_request(b"/quick", "127.0.0.2"))
        assert b" 200 " in await connections[-1][0].readline()
        release.set()
        for reader, _ in connections[:42]:
            assert b" 200 " in await reader.readline()
    for _, writer in connections:
        writer.close()
    server.close()
    await pool.close(0.1)


@pytest.mark.parametrize(
    "data", [b"", b"GET / HTTP/1.1\r\n", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n" + HOST + b"\r\n"]
)
async def test_the_oldest_connection_without_a_whole_request_gives_way(
    monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    monkeypatch.setattr("mcp_bridge._runtime.platform.system.read_descriptor_limit", lambda: 8)
    async with connect_to_app(echo) as (reader, writer):
        writer.write(data)
        connections = [await asyncio.open_connection(*writer.get_extra_info("peername")) for _ in range(6)]
        assert await reader.read() == b""
        later, last = connections[-1]
        last.write(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
        assert b" 200 " in await later.readline()
        for _, other_writer in connections:
            other_writer.close()
