"""The proxy of a sandbox connects to listed hosts only, and reads no request differently than the server."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from pathlib import Path

import anyio
import pytest

from mcp_bridge._runtime.egress import exchange, proxy
from tests.kits.certificates import make_certificate
from tests.kits.constants import TIMEOUT
from tests.kits.egress.egress_kit import RunningProxy, run_proxy
from tests.kits.openapi.api_server import ApiServer, Reply, run_api
from tests.kits.waiting import wait_until_true

HERE = [["127.0.0.1"]]


def get_port(server: ApiServer) -> int:
    return int(server.url.rpartition(":")[2])


def make_get(url: str, *headers: str, host: str | None = None) -> str:
    host_header = host or url.split("/")[2]
    return "\r\n".join([f"GET {url} HTTP/1.1", f"Host: {host_header}", *headers, "", ""])


async def test_a_request_for_a_listed_host_reaches_it_without_headers_of_the_proxy() -> None:
    with run_api() as server:
        port = get_port(server)
        async with run_proxy(f"api.test:{port}", api=HERE) as running:
            headers = ["Proxy-Authorization: Basic eDp5", "Connection: keep-alive, X-Hop", "X-Hop: 1", "X-End: 2"]
            response = await running.exchange(
                make_get(f"http://API.test.:{port}?q=1", *headers, host=f"api.test:{port}")
            )
    assert response.startswith("HTTP/1.1 200 ")
    assert response.endswith("\r\n\r\n{}")
    (request,) = server.received
    assert request.target == "/?q=1"
    assert request.headers == {"host": f"api.test:{port}", "connection": "close", "x-end": "2"}


async def test_a_body_is_forwarded_in_both_directions() -> None:
    with run_api() as server:
        server.reply = Reply(b"r" * 3_000_000)
        port = get_port(server)
        async with run_proxy(f"api.test:{port}", api=HERE) as running:
            body = "b" * 1_000_000
            head = (
                f"POST http://api.test:{port}/ HTTP/1.1\r\nHost: api.test:{port}\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            response = await running.exchange(head + body)
    assert response.endswith("\r\n\r\n" + "r" * 3_000_000)
    assert server.received[0].body == body.encode()


@pytest.mark.parametrize("method", ["GET", "CONNECT"])
async def test_a_denied_host_is_explained_and_logged_once(method: str) -> None:
    async with run_proxy("*.example.com") as running:
        target = "evil.test:443" if method == "CONNECT" else "http://evil.test:443/?key=secret"
        for _ in range(2):
            response = await running.exchange(f"{method} {target} HTTP/1.1\r\nHost: evil.test:443\r\n\r\n")
    assert response.startswith("HTTP/1.1 403 evil.test:443 is not listed in the sandbox's network setting\r\n")
    assert "Use a listed host (*.example.com), or ask the user to add 'evil.test:443' to `network`" in response
    assert running.names.queries == []
    assert running.lines == [
        "mcp-bridge: the sandbox has denied a connection: evil.test:443 is not listed in the sandbox's network setting"
    ]


async def test_denials_of_many_hosts_are_not_all_logged() -> None:
    async with run_proxy("example.com") as running:
        for number in range(2 * proxy.MAX_LOGGED):
            await running.exchange(f"CONNECT h{number}.test:443 HTTP/1.1\r\nHost: h\r\n\r\n")
    assert len(running.lines) == proxy.MAX_LOGGED


@pytest.mark.parametrize(
    "request_text",
    [
        make_get("http://api.test/", host="other.test"),
        make_get("http://api.test/", host="api.test:8080"),
        make_get("http://api.test/", host="api.test, other.test"),
        make_get("http://user:password@api.test/", host="api.test"),
        make_get("http://other.test#@api.test/", host="api.test"),
        make_get("http://other.test\\@api.test/", host="api.test"),
        make_get("https://api.test/"),
        make_get("ftp://api.test/"),
        "GET / HTTP/1.1\r\nHost: api.test\r\n\r\n",
        "GET http://api.test/ HTTP/1.1\r\n\r\n",
        "GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\nHost: other.test\r\n\r\n",
        "GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "GET http://api.test/ HTTP/1.1\r\nHost : api.test\r\n\r\n",
        "CONNECT api.test HTTP/1.1\r\nHost: api.test\r\n\r\n",
        "CONNECT user@api.test:443 HTTP/1.1\r\nHost: api.test\r\n\r\n",
        "CONNECT http://api.test:443 HTTP/1.1\r\nHost: api.test\r\n\r\n",
        "CONNECT api.test:443 HTTP/1.1\r\nHost: api.test\r\nContent-Length: 5\r\n\r\nHELLO",
        "CONNECT 127.1:443 HTTP/1.1\r\nHost: a\r\n\r\n",
        "\x16\x03\x01 this is TLS\r\n\r\n",
        "GET http://api.test/ HTTP/1.1\r\nX: " + "a" * exchange.MAX_HEAD,
    ],
)
async def test_ambiguous_and_invalid_requests_are_rejected(request_text: str) -> None:
    async with run_proxy("api.test", api=HERE) as running:
        response = await running.exchange(request_text)
    status = response.split(" ")[1]
    assert status in {"400", "431", "501"}
    assert "password" not in response
    assert running.names.queries == []


async def test_a_second_request_on_a_connection_is_never_sent() -> None:
    with run_api() as server:
        port = get_port(server)
        async with run_proxy(f"api.test:{port}", api=HERE) as running:
            smuggled = make_get(f"http://api.test:{port}/smuggled", host="other.test")
            response = await running.exchange(make_get(f"http://api.test:{port}/first") + smuggled)
    assert response.count("HTTP/1.1") == 1
    assert [request.path for request in server.received] == ["/first"]


async def test_a_chunked_body_with_a_length_is_read_by_its_chunks() -> None:
    seen: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"0\r\n\r\n"))
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with run_proxy(f"api.test:{port}", api=HERE) as running:
            head = f"POST http://api.test:{port}/ HTTP/1.1\r\nHost: api.test:{port}\r\n"
            framing = "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
            await running.exchange(head + framing + "5\r\nhello\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n")
    assert b"content-length" not in seen[0].lower()
    assert seen[0].endswith(b"\r\n\r\n5\r\nhello\r\n0\r\n\r\n")


# Addresses


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.5", "169.254.169.254", "::1", "::ffff:127.0.0.1", "0.0.0.0"])
async def test_a_listed_name_does_not_lead_into_the_private_network(address: str) -> None:
    async with run_proxy("api.test", allow=(), api=[[address]]) as running:
        response = await running.exchange("CONNECT api.test:443 HTTP/1.1\r\nHost: api.test\r\n\r\n")
    assert response.startswith(f"HTTP/1.1 403 the addresses of api.test ({address}) are not public\r\n")
    assert "`allow_addresses`" in response


async def test_a_name_is_resolved_once_and_the_checked_address_is_used() -> None:
    with run_api() as server:
        port = get_port(server)
        async with run_proxy(
            f"api.test:{port}", f"127.0.0.1:{port}", allow=(), api=[["127.0.0.1"], ["10.0.0.1"]]
        ) as running:
            response = await running.exchange(make_get(f"http://api.test:{port}/"))
            assert response.startswith("HTTP/1.1 200 ")
            assert running.names.queries == ["api.test"]
            response = await running.exchange(make_get(f"http://api.test:{port}/"))
            assert response.startswith("HTTP/1.1 403 ")
    assert len(server.received) == 1


async def test_a_host_that_cannot_be_reached_is_a_gateway_error() -> None:
    async with run_proxy("api.test:1", "unknown.test", api=HERE) as running:
        response = await running.exchange("CONNECT unknown.test:443 HTTP/1.1\r\nHost: a\r\n\r\n")
        assert response.startswith("HTTP/1.1 502 the name unknown.test cannot be resolved\r\n")
        response = await running.exchange("CONNECT api.test:1 HTTP/1.1\r\nHost: a\r\n\r\n")
        assert response.startswith("HTTP/1.1 502 api.test:1 does not accept a connection\r\n")


@pytest.mark.parametrize("response", [b"", b"SSH-2.0-server\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"a" * exchange.MAX_HEAD])
async def test_a_server_without_a_valid_response_is_a_gateway_error(response: bytes) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(response)
        writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with run_proxy(f"api.test:{port}", api=HERE) as running:
            reply = await running.exchange(make_get(f"http://api.test:{port}/"))
    assert reply.startswith(f"HTTP/1.1 502 api.test:{port} sends no valid response\r\n")


# Tunnels


async def open_tunnel(running: RunningProxy, target: str, tls: ssl.SSLContext, name: str | None) -> str:
    """Send a request over TLS through a tunnel, and return the response."""
    with anyio.fail_after(TIMEOUT):
        async with running.connect() as (reader, writer):
            writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 200 Connection established\r\n\r\n"
            await writer.start_tls(tls, server_hostname=name)
            writer.write(b"GET / HTTP/1.0\r\n\r\n")
            return (await reader.read()).decode()


async def test_a_tunnel_carries_tls_to_a_listed_host(tmp_path: Path) -> None:
    server_tls, client_tls = make_certificate(tmp_path, "api.test")
    with run_api(server_tls) as server:
        async with run_proxy(f"*.test:{get_port(server)}", api=HERE) as running:
            response = await open_tunnel(running, f"api.test:{get_port(server)}", client_tls, "api.test")
    assert response.startswith("HTTP/1.1 200 ")


@pytest.mark.parametrize("name", ["other.example", "api.test.evil.example"])
async def test_a_tunnel_with_the_server_name_of_another_host_is_closed(name: str, tmp_path: Path) -> None:
    server_tls, client_tls = make_certificate(tmp_path, name)
    with run_api(server_tls) as server:
        port = get_port(server)
        async with run_proxy(f"*.test:{port}", api=HERE) as running:
            with pytest.raises(ssl.SSLError, match="UNRECOGNIZED_NAME"):
                await open_tunnel(running, f"api.test:{port}", client_tls, name)
    assert server.received == []
    assert running.lines == [
        f"mcp-bridge: the sandbox has denied a connection: a tunnel to api.test:{port} "
        f"began with the server name '{name}', which is not listed"
    ]


async def test_a_tunnel_without_a_server_name_is_allowed(tmp_path: Path) -> None:
    server_tls, _ = make_certificate(tmp_path, "api.test")
    client_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_tls.check_hostname, client_tls.verify_mode = False, ssl.CERT_NONE
    with run_api(server_tls) as server:
        async with run_proxy(f"127.0.0.1:{get_port(server)}", allow=()) as running:
            running.names.addresses["127.0.0.1"] = HERE
            for name in (None, "any.example"):
                response = await open_tunnel(running, f"127.0.0.1:{get_port(server)}", client_tls, name)
                assert response.startswith("HTTP/1.1 200 ")


async def test_a_tunnel_carries_other_protocols_whichever_side_begins() -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.write(b"bye " + await reader.read())
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with run_proxy(f"api.test:{port}", api=HERE) as running, running.connect() as (reader, writer):
            writer.write(f"CONNECT api.test:{port} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            await reader.readuntil(b"\r\n\r\n")
            assert await reader.readexactly(5) == b"hello"
            writer.write(b"client")
            writer.write_eof()
            assert await reader.read() == b"bye client"


@pytest.mark.parametrize("first_bytes", [b"\x16\x03\x01\x00\x05aaaaa", b"\x16" * 100, b"\x16\x03\x01\x02\x00\x01"])
async def test_a_tunnel_with_invalid_tls_reaches_no_server(first_bytes: bytes) -> None:
    received: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.read())
        writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with run_proxy(f"api.test:{port}", api=HERE) as running, running.connect() as (reader, writer):
            writer.write(f"CONNECT api.test:{port} HTTP/1.1\r\nHost: a\r\n\r\n".encode() + first_bytes)
            writer.write_eof()
            with anyio.fail_after(TIMEOUT):
                await reader.read()
    assert received in ([], [b""])


# Limits


async def test_a_client_that_sends_its_request_slowly_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "HEAD_TIMEOUT", 0.5)
    async with run_proxy("api.test") as running, running.connect() as (reader, writer):
        with anyio.fail_after(TIMEOUT):
            async with anyio.create_task_group() as tasks:

                async def send_slowly() -> None:
                    while True:
                        writer.write(b"a")
                        await anyio.sleep(0.05)

                tasks.start_soon(send_slowly)
                assert await reader.read() == b""
                tasks.cancel_scope.cancel()


async def test_a_tunnel_without_traffic_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "IDLE_TIMEOUT", 0.5)

    async def wait_for_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(wait_for_end, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with run_proxy(f"api.test:{port}", api=HERE) as running:
            response = await running.exchange(f"CONNECT api.test:{port} HTTP/1.1\r\nHost: a\r\n\r\n")
    assert response == "HTTP/1.1 200 Connection established\r\n\r\n"


async def test_connections_beyond_the_limit_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    with run_api() as server:
        port = get_port(server)
        async with run_proxy(f"api.test:{port}", api=HERE) as running, anyio.create_task_group() as tasks:
            waiting = [await asyncio.open_connection("127.0.0.1", running.port) for _ in range(proxy.MAX_CONNECTIONS)]
            answers: list[str] = []

            async def send() -> None:
                answers.append(await running.exchange(make_get(f"http://api.test:{port}/")))

            tasks.start_soon(send)
            # The waiting request is served as soon as another connection ends.
            await anyio.wait_all_tasks_blocked()
            assert answers == []
            for reader, writer in waiting:
                writer.write_eof()
                assert await reader.read() == b""
                writer.close()
    assert answers[0].startswith("HTTP/1.1 200 ")


async def test_a_client_that_does_not_read_fills_no_memory() -> None:
    sent = 0

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        with contextlib.suppress(OSError):
            while True:
                writer.write(b"a" * 65_536)
                await writer.drain()
                sent += 65_536
        writer.close()

    async with await asyncio.start_server(flood, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with run_proxy(f"api.test:{port}", api=HERE) as running, running.connect() as (_, writer):
            writer.transport.pause_reading()
            writer.write(f"CONNECT api.test:{port} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            await wait_until_true(lambda: sent)
            # In each round of the loop, the server could send 64 KiB, 256 MiB in all.
            for _ in range(4096):
                await asyncio.sleep(0)
            assert sent < 64 * 1024**2
