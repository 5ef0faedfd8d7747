"""Local endpoints over TCP admit only clients with the token, and clients notice a server without the proof."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from mcp_bridge._runtime.platform import tcp_endpoints
from mcp_bridge._runtime.platform.tcp_endpoints import HOST, TOKEN_LENGTH, TcpListener, connect_endpoint, open_listener
from tests.kits.waiting import wait_until_true


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def serve_endpoint(path: Path) -> AsyncIterator[tuple[TcpListener, list[bool]]]:
    """Admit connections, and respond to each admitted one with `hello`. Yield the listener and the decisions."""
    listener = open_listener(path, 200)
    decisions: list[bool] = []

    async def admit(connection: socket.socket) -> None:
        with connection:
            decisions.append(await listener.admit(connection))
            # A check whether the server is stale does not wait for a response.
            with contextlib.suppress(ConnectionError):
                if decisions[-1]:
                    connection.send(b"hello")

    async def accept() -> None:
        while True:
            await anyio.wait_readable(listener.socket)
            with contextlib.suppress(BlockingIOError):
                tasks.start_soon(admit, listener.socket.accept()[0])

    with listener.socket:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(accept)
            yield listener, decisions
            tasks.cancel_scope.cancel()


def get_port(path: Path) -> int:
    port: int = json.loads(path.read_text())["port"]
    return port


def read_all(connection: socket.socket) -> bytes:
    """Return what the server sends until it closes the connection."""
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(100):
            data += piece
    return data


async def test_a_client_of_the_user_is_admitted_and_verifies_the_server(tmp_path: Path) -> None:
    async with serve_endpoint(tmp_path / "x.sock") as (listener, decisions):
        connection = connect_endpoint(tmp_path / "x.sock")
        assert connection is not None
        with connection.socket:
            assert not connection.is_verified
            assert await anyio.to_thread.run_sync(connection.receive, 100) == b"hello"
            assert connection.is_verified
        assert decisions == [True]
        # The server takes such a check for a client of the user, because it logs a warning about others.
        assert not await anyio.to_thread.run_sync(tcp_endpoints.is_stale, tmp_path / "x.sock")
        await wait_until_true(lambda: decisions == [True, True])
        assert listener.socket.getsockname()[0] == "127.0.0.1"


def test_only_the_user_can_read_the_token(tmp_path: Path) -> None:
    with open_listener(tmp_path / "x.sock", 1).socket:
        assert (tmp_path / "x.sock").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("token", [b"0" * TOKEN_LENGTH, b"", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" + b"x" * 40])
async def test_a_wrong_token_is_closed_after_a_delay_without_a_response(tmp_path: Path, token: bytes) -> None:
    async with serve_endpoint(tmp_path / "x.sock") as (_, decisions):
        with socket.create_connection((HOST, get_port(tmp_path / "x.sock"))) as connection:
            start = time.monotonic()
            connection.sendall(token)
            connection.shutdown(socket.SHUT_WR)
            assert await anyio.to_thread.run_sync(read_all, connection) == b""
            assert time.monotonic() - start >= tcp_endpoints.WRONG_TOKEN_DELAY
        assert decisions == [False]


async def test_connections_that_are_accepted_together_do_not_exceed_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "x.sock"
    listener = open_listener(path, 200)
    decisions: list[bool] = []

    async def admit() -> None:
        with listener.socket.accept()[0] as accepted:
            decisions.append(await listener.admit(accepted))

    with contextlib.ExitStack() as stack:
        stack.enter_context(listener.socket)
        for _ in range(100):
            stack.enter_context(socket.create_connection((HOST, get_port(path))))
        async with anyio.create_task_group() as tasks:
            for _ in range(100):
                tasks.start_soon(admit)
            with anyio.fail_after(tcp_endpoints.TOKEN_TIMEOUT - 1):
                await wait_until_true(lambda: len(decisions) == 100 - tcp_endpoints.MAX_UNVERIFIED)
            tasks.cancel_scope.cancel()


async def test_many_unverified_connections_do_not_keep_a_client_out(tmp_path: Path) -> None:
    path = tmp_path / "x.sock"
    async with serve_endpoint(path) as (_, decisions):
        with contextlib.ExitStack() as stack:
            address = (HOST, get_port(path))
            unverified = [stack.enter_context(socket.create_connection(address)) for _ in range(100)]
            # The oldest ones are closed before their time.
            await wait_until_true(lambda: len(decisions) == 100 - tcp_endpoints.MAX_UNVERIFIED)
            connection = connect_endpoint(path)
            assert connection is not None
            stack.enter_context(connection.socket)
            assert await anyio.to_thread.run_sync(connection.receive, 100) == b"hello"
            assert unverified[0].recv(1) == b""


@pytest.mark.parametrize("response", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"f" * TOKEN_LENGTH])
def test_a_client_trusts_no_program_that_has_got_the_port_of_an_old_server(tmp_path: Path, response: bytes) -> None:
    path = tmp_path / "x.sock"
    with open_listener(path, 1).socket, socket.create_server((HOST, 0)) as other:
        path.write_text(json.dumps({**json.loads(path.read_text()), "port": other.getsockname()[1]}))
        connection = connect_endpoint(path)
        assert connection is not None
        accepted, _ = other.accept()
        with connection.socket:
            with accepted:
                accepted.recv(TOKEN_LENGTH, socket.MSG_WAITALL)
                accepted.sendall(response)
            assert connection.receive(100) == b""
            assert not connection.is_verified


@pytest.mark.parametrize("content", [None, "", "{}", "[]", '{"port": "x"}', '{"port": 1, "token": "", "proof": ""}'])
def test_no_server_is_found_without_a_valid_file(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "x.sock"
    if content is not None:
        path.write_text(content)
    assert connect_endpoint(path) is None
    assert tcp_endpoints.is_stale(path)


def test_the_file_of_a_server_that_was_killed_is_stale(tmp_path: Path) -> None:
    path = tmp_path / "x.sock"
    listener = open_listener(path, 1)
    with listener.socket:
        assert not tcp_endpoints.is_stale(path)
        assert listener.owns_path()
    assert tcp_endpoints.is_stale(path)
    assert connect_endpoint(path) is None
    with open_listener(path, 1).socket:
        assert not listener.owns_path()
    os.unlink(path)
    assert not listener.owns_path()
