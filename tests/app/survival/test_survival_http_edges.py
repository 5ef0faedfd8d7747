"""Unusual HTTP requests get the correct status, without errors in the log or delays for other clients."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from tests.client.server_process import HttpServerProcess, Way
from tests.kits.constants import ENVELOPE, HANDSHAKE, TIMEOUT
from tests.kits.survival.fault_kit import Shared
from tests.kits.survival.survival_kit import OTHER, run_server

LIST = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {"_meta": ENVELOPE}}).encode()
STATELESS_HTTP = Way("http", stateless=True)
ERAS = [STATELESS_HTTP, OTHER]
TE = "Transfer-Encoding: chunked\r\n"
QUIET = ("begun ", "Could not find session for ID", "request without session_id")
"""What the log may say beside these requests."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    """Yield one server for each era, so that later requests show the damage of earlier ones."""
    with contextlib.closing(Shared(lambda way: run_server(way, tmp_path_factory.mktemp("edges")))) as servers:
        yield servers


@pytest.fixture
def era() -> Way:
    """Return the era for tests without protocol messages."""
    return STATELESS_HTTP


@pytest.fixture
def quiet_server(era: Way, shared: Shared) -> Iterator[HttpServerProcess]:
    """A neighbour is in flight, and the log stays quiet."""
    server = shared.server(era)
    log_length = len(server.stderr)
    with server.keep_call_in_flight():
        yield server
    # The neighbour reads its answer after all earlier messages.
    with server.keep_call_in_flight():
        lines = server.stderr[log_length:].splitlines()
    assert not [line for line in lines if line.strip() and not any(words in line for words in QUIET)]


def in_one_era(table: dict[str, tuple[Any, ...]], names: str, smoke: Iterable[str] = ()) -> pytest.MarkDecorator:
    """Run each row of a table in one era, and a few rows in the other."""
    cases = [*((STATELESS_HTTP, name) for name in table), *((OTHER, name) for name in smoke)]
    rows = [pytest.param(era, *table[name], id=f"{era}-{name}") for era, name in cases]
    return pytest.mark.parametrize(("era", *names.split()), rows)


@contextlib.contextmanager
def connected(server: HttpServerProcess) -> Iterator[socket.socket]:
    """A plain connection."""
    host, _, port = server.base.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=TIMEOUT) as connection:
        yield connection


def answer(connection: socket.socket) -> tuple[int, bytes]:
    """Return the status and the bytes of the next response. The status is 0 if the connection closes without one."""
    got = b""
    with contextlib.suppress(ConnectionError):
        while b"\r\n\r\n" not in got and (more := connection.recv(65536)):
            got += more
    return (int(got.split(b" ", 2)[1]) if got.startswith(b"HTTP/1.1 ") else 0), got


def exchange(server: HttpServerProcess, data: bytes) -> tuple[int, bytes]:
    """Send bytes, and return the status and the bytes of the response."""
    with connected(server) as connection:
        # The server may refuse the body before all of it was sent.
        with contextlib.suppress(ConnectionError):
            connection.sendall(data)
        return answer(connection)


def head(
    server: HttpServerProcess,
    *more: str,
    first: str = "POST /mcp HTTP/1.1",
    host: str = "Host: 127.0.0.1",
    length: str = f"Content-Length: {len(LIST)}",
    **instead: str,
) -> bytes:
    """Return the head of a request, valid except for the arguments; `instead` are other values of its headers."""
    headers = {**server.headers, "Mcp-Method": "tools/list"}
    headers.update({name.replace("_", "-"): value for name, value in instead.items()})
    lines = [first, host, *(f"{name}: {value}" for name, value in headers.items()), *more, length]
    return ("\r\n".join(line for line in lines if line) + "\r\n\r\n").encode("latin-1")


def chunked(*pieces: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    """A chunked body."""
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + end


LENGTHS: dict[str, tuple[str, bytes, int]] = {
    "right": (f"Content-Length: {len(LIST)}", LIST, 200),
    "too small": ("Content-Length: 5", LIST, 400),
    "negative": ("Content-Length: -5", LIST, 400),
    "no number": ("Content-Length: many", LIST, 400),
    "beyond 64 bits": ("Content-Length: " + "9" * 30, LIST, 400),
    "too large for us": ("Content-Length: 999999999999999999", b"", 413),
    "a byte too large for us": (f"Content-Length: {4 * 1024 * 1024 + 1}", b"", 413),
    "twice": (f"Content-Length: 5\r\nContent-Length: {len(LIST)}", LIST, 400),
    "twice the same": (f"Content-Length: {len(LIST)}\r\nContent-Length: {len(LIST)}", LIST, 400),
    "a list": (f"Content-Length: {len(LIST)}, {len(LIST)}", LIST, 400),
    "nothing": ("Content-Length: 0", b"", 400),
    "none": ("", b"", 400),
    "chunked": (TE.strip(), chunked(LIST), 200),
    "chunked byte by byte": (TE.strip(), chunked(*(bytes([byte]) for byte in LIST)), 200),
    "chunked with a length": (f"{TE}Content-Length: {len(LIST)}", chunked(LIST), 400),
    "a length before chunked": (f"Content-Length: {len(LIST)}\r\n{TE}".strip(), chunked(LIST), 400),
    "not quite chunked": ("Transfer-Encoding: xchunked", chunked(LIST), 400),
    "gzip, chunked": ("Transfer-Encoding: gzip, chunked", chunked(LIST), 415),
    "chunked, gzip": ("Transfer-Encoding: chunked, gzip", chunked(LIST), 400),
    "a blank before the colon": ("Transfer-Encoding : chunked", chunked(LIST), 400),
    "a blank at the end": ("Transfer-Encoding: chunked ", chunked(LIST), 200),
    "a size that is none": (TE.strip(), b"zz\r\nabc\r\n0\r\n\r\n", 400),
    "a size beyond 64 bits": (TE.strip(), b"f" * 20 + b"\r\nabc\r\n0\r\n\r\n", 400),
    "line feeds alone": (TE.strip(), chunked(LIST).replace(b"\r\n", b"\n"), 400),
    "a trailer": (TE.strip(), chunked(LIST, end=b"0\r\nHost: evil.example\r\nMcp-Session-Id: x\r\n\r\n"), 200),
    "a trailer without end": (TE.strip(), chunked(LIST, end=b"0\r\nX: ") + b"a" * 2_000_000, 431),
}


@in_one_era(
    LENGTHS, "length body status", smoke=["right", "chunked", "chunked with a length", "a byte too large for us"]
)
def test_a_wrong_content_length_is_distinguished_from_a_correct_one(
    quiet_server: HttpServerProcess, length: str, body: bytes, status: int
) -> None:
    assert exchange(quiet_server, head(quiet_server, length=length) + body)[0] == status


HEADERS: dict[str, tuple[str, int]] = {
    "not ASCII": ("X-A: \xff\xfe", 200),
    "60 kB": ("X-A: " + "a" * 60_000, 200),
    "70 kB": ("X-A: " + "a" * 70_000, 431),
    "a name of 70 kB": ("X" * 70_000 + ": a", 431),
    "a hundred": ("\r\n".join(f"X-{number}: a" for number in range(100)), 200),
    "a thousand": ("\r\n".join(f"X-{number}: a" for number in range(1000)), 431),
    "a null byte": ("X-A: a\0b", 400),
    "folded": ("X-A: a\r\n b", 400),
    "a bare carriage return": ("X-A: a\rb", 400),
    "a blank in the name": ("X A: a", 400),
    "no colon": ("X-A", 400),
    "another Host": ("Host: 127.0.0.1", 400),
    "a foreign Host beside ours": ("Host: evil.example", 400),
    "a foreign Origin": ("Origin: https://evil.example", 403),
    "no Origin": ("Origin: null", 403),
    "our Origin": ("Origin: http://127.0.0.1", 200),
    "two Origins": ("Origin: http://127.0.0.1\r\nOrigin: https://evil.example", 400),
    "another Content-Type": ("Content-Type: text/plain", 400),
    "two sessions": ("Mcp-Session-Id: a\r\nMcp-Session-Id: b", 400),
    "gzip": ("Content-Encoding: gzip", 415),
    "an upgrade to WebSocket": ("Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13", 200),
    "an upgrade to HTTP/2": ("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA", 200),
    "an odd expectation": ("Expect: a miracle", 200),
}


@in_one_era(HEADERS, "line status", smoke=["a foreign Origin", "two sessions", "another Content-Type", "gzip"])
def test_an_odd_header_is_rejected_or_ignored(quiet_server: HttpServerProcess, line: str, status: int) -> None:
    assert exchange(quiet_server, head(quiet_server, line) + LIST)[0] == status


INSTEAD: dict[str, tuple[dict[str, str], int]] = {
    "no Host": ({"host": ""}, 421),
    "an empty Host": ({"host": "Host:"}, 421),
    "a foreign Host": ({"host": "Host: evil.example"}, 421),
    "a Host that is none": ({"host": "Host: ["}, 421),
    "plain text": ({"Content_Type": "text/plain"}, 400),
    "a form": ({"Content_Type": "application/x-www-form-urlencoded"}, 400),
    "an empty type": ({"Content_Type": ""}, 400),
    "a type in capitals": ({"Content_Type": "Application/JSON"}, 200),
    "HTML": ({"Accept": "text/html"}, 406),
    "nothing": ({"Accept": ""}, 406),
    "JSON alone": ({"Accept": "application/json"}, 406),
    "anything": ({"Accept": "*/*"}, 200),
    "an unknown version": ({"MCP_Protocol_Version": "1900-01-01"}, 400),
}


@in_one_era(INSTEAD, "instead status", smoke=[name for name in INSTEAD if "Host" not in name])
def test_relevant_headers_are_checked(quiet_server: HttpServerProcess, instead: dict[str, str], status: int) -> None:
    assert exchange(quiet_server, head(quiet_server, **instead) + LIST)[0] == status


FIRST: dict[str, tuple[str, int]] = {
    "HTTP/1.0": ("POST /mcp HTTP/1.0", 200),
    "HTTP/0.9": ("POST /mcp", 505),
    "HTTP/1.2": ("POST /mcp HTTP/1.2", 400),
    "HTTP/2": ("POST /mcp HTTP/2.0", 505),
    "another protocol": ("POST /mcp HTPP/1.1", 400),
    "the absolute form": ("POST http://127.0.0.1/mcp HTTP/1.1", 200),
    "the absolute form without a path": ("POST http://127.0.0.1 HTTP/1.1", 400),
    "the absolute form of another host": ("POST http://evil.example/mcp HTTP/1.1", 400),
    "the absolute form with a user": ("POST http://evil@127.0.0.1/mcp HTTP/1.1", 400),
    "two slashes": ("POST //mcp HTTP/1.1", 404),
    "a slash at the end": ("POST /mcp/ HTTP/1.1", 200),
    "dots before it": ("POST /x/../mcp HTTP/1.1", 404),
    "escaped dots": ("POST /%2e%2e/mcp HTTP/1.1", 404),
    "an escaped letter": ("POST /%6dcp HTTP/1.1", 200),
    "an escaped null byte": ("POST /mcp%00 HTTP/1.1", 404),
    "an escape that is no UTF-8": ("POST /mcp%ff HTTP/1.1", 404),
    "a null byte": ("POST /mcp\0 HTTP/1.1", 400),
    "not ASCII": ("POST /mcp\xe9 HTTP/1.1", 400),
    "a blank": ("POST /m cp HTTP/1.1", 400),
    "a star": ("POST * HTTP/1.1", 404),
    "nothing": ("POST  HTTP/1.1", 400),
    "a query": ("POST /mcp?x=%00 HTTP/1.1", 200),
    "70 kB": ("POST /" + "a" * 70_000 + " HTTP/1.1", 431),
    "a method of nobody": ("GARBAGE /mcp HTTP/1.1", 400),
    "a method in small letters": ("post /mcp HTTP/1.1", 400),
    "PUT": ("PUT /mcp HTTP/1.1", 405),
    "OPTIONS": ("OPTIONS /mcp HTTP/1.1", 405),
    "HEAD": ("HEAD /mcp HTTP/1.1", 405),
    "CONNECT with a path": ("CONNECT /mcp HTTP/1.1", 405),
    "CONNECT": ("CONNECT evil.example:443 HTTP/1.1", 400),
}


@in_one_era(FIRST, "first status", smoke=["HTTP/1.0", "a slash at the end", "PUT"])
def test_an_odd_request_line_is_answered(quiet_server: HttpServerProcess, first: str, status: int) -> None:
    assert exchange(quiet_server, head(quiet_server, first=first) + LIST)[0] == status


STRANGERS: dict[str, bytes] = {
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    "SSH": b"SSH-2.0-OpenSSH_9.9\r\n",
    "JSON": LIST + b"\n",
}


@pytest.mark.parametrize("data", STRANGERS.values(), ids=STRANGERS)
def test_another_protocol_is_rejected_and_the_connection_closed(quiet_server: HttpServerProcess, data: bytes) -> None:
    with connected(quiet_server) as connection:
        connection.sendall(data)
        status, _ = answer(connection)
        assert status == 400
        with contextlib.suppress(ConnectionError):
            assert connection.recv(1) == b""


def test_endless_headers_are_rejected_in_constant_memory(quiet_server: HttpServerProcess) -> None:
    before = quiet_server.rss
    for _ in range(20):
        with connected(quiet_server) as connection, contextlib.suppress(ConnectionError):
            connection.sendall(head(quiet_server)[:-2] + b"X: ")
            for _ in range(100):
                connection.sendall(b"a" * 100_000)
            assert answer(connection)[0] == 431
    assert quiet_server.rss - before < 20_000_000


@pytest.mark.parametrize("length", ["Content-Length: 300000000", TE.strip()], ids=["with a length", "without"])
def test_a_body_that_is_too_large_is_rejected_in_constant_memory(quiet_server: HttpServerProcess, length: str) -> None:
    before, piece = quiet_server.rss, b"%x\r\n%s\r\n" % (1_000_000, b"a" * 1_000_000)
    with connected(quiet_server) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(head(quiet_server, length=length))
        for _ in range(100):
            connection.sendall(piece)
    assert exchange(quiet_server, head(quiet_server, length=length) + piece * 5)[0] == 413
    assert quiet_server.rss - before < 40_000_000


def test_a_client_that_waits_for_100_continue_gets_it(quiet_server: HttpServerProcess) -> None:
    with connected(quiet_server) as connection:
        connection.sendall(head(quiet_server, "Expect: 100-continue"))
        assert answer(connection)[0] == 100
        connection.sendall(LIST)
        assert answer(connection)[0] == 200


def test_a_request_with_a_large_content_length_is_rejected_before_its_body(quiet_server: HttpServerProcess) -> None:
    with connected(quiet_server) as connection:
        connection.sendall(head(quiet_server, "Expect: 100-continue", length="Content-Length: 99999999"))
        assert answer(connection)[0] == 413


def test_a_request_in_single_bytes_is_a_request(quiet_server: HttpServerProcess) -> None:
    with connected(quiet_server) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in head(quiet_server) + LIST:
            connection.send(bytes([byte]))
        assert answer(connection)[0] == 200


def test_empty_lines_before_a_request_are_ignored(quiet_server: HttpServerProcess) -> None:
    assert exchange(quiet_server, b"\r\n" * 3 + head(quiet_server) + LIST)[0] == 200


def whole(connection: socket.socket) -> bytes:
    """The next answer from its first byte to its last."""
    status, got = answer(connection)
    assert status == 200, got
    lengths = [line for line in got.lower().split(b"\r\n") if line.startswith(b"content-length: ")]
    total = got.index(b"\r\n\r\n") + 4 + int(lengths[0].split()[1]) if lengths else None
    while len(got) < total if total is not None else not got.endswith(b"0\r\n\r\n"):
        got += connection.recv(65536)
    return got


def test_an_upgrade_that_is_not_made_leaves_the_connection_for_more(quiet_server: HttpServerProcess) -> None:
    with connected(quiet_server) as connection:
        for number, upgrade in enumerate(["h2c", "websocket", ""]):
            body = chunked(LIST.replace(b'"id": 7', b'"id": %d' % (70 + number)))
            lines = ["Connection: Upgrade, HTTP2-Settings", f"Upgrade: {upgrade}"] if upgrade else []
            connection.sendall(head(quiet_server, *lines, length=TE.strip()) + body)
            assert b'"tools"' in whole(connection)


def test_many_upgrades_in_one_piece_cost_no_more_than_one(quiet_server: HttpServerProcess) -> None:
    asks = head(quiet_server, "Connection: Upgrade", "Upgrade: h2c") + LIST
    assert exchange(quiet_server, asks * 500)[0] in (200, 400)


def test_a_thousand_pipelined_requests_get_responses_in_order(quiet_server: HttpServerProcess) -> None:
    with connected(quiet_server) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000)
        got = b""
        while got.count(b"HTTP/1.1 200 ") < 1000 and (more := connection.recv(65536)):
            got += more
    assert got.count(b"HTTP/1.1 200 ") == 1000


def test_a_client_that_closes_its_side_gets_a_response_or_is_closed(quiet_server: HttpServerProcess) -> None:
    with connected(quiet_server) as connection:
        connection.sendall(head(quiet_server) + LIST)
        connection.shutdown(socket.SHUT_WR)
        assert answer(connection)[0] in (0, 200)


CUTS = {"in the head": 30, "at the end of the head": -len(LIST), "in the body": -10, "at the end": None}


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
def test_a_client_that_disconnects_in_the_middle_has_no_effect(
    quiet_server: HttpServerProcess, cut: int | None, reset: bool
) -> None:
    for length in (f"Content-Length: {len(LIST)}", f"Content-Length: {len(LIST) + 5}"):
        for _ in range(5):
            with connected(quiet_server) as connection:
                connection.sendall((head(quiet_server, length=length) + LIST)[:cut])
                if reset:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize("path", ["/messages?session_id=" + "a" * 32, "/messages", "/sse", "/health"])
def test_a_client_of_another_path_may_disconnect_early(quiet_server: HttpServerProcess, path: str) -> None:
    for _ in range(5):
        with connected(quiet_server) as connection:
            connection.sendall(head(quiet_server, first=f"POST {path} HTTP/1.1") + LIST[:-10])


def test_a_message_for_an_sse_stream_that_breaks_off_costs_nothing(quiet_server: HttpServerProcess) -> None:
    with quiet_server.http.stream("GET", "/sse") as stream:
        path = next(line for line in stream.iter_lines() if line.startswith("data: ")).removeprefix("data: ")
        for length in (f"Content-Length: {len(LIST)}", f"Content-Length: {len(LIST) + 5}"):
            with connected(quiet_server) as connection:
                connection.sendall((head(quiet_server, first=f"POST {path} HTTP/1.1", length=length) + LIST)[:-10])


def test_a_thousand_connections_that_are_dropped_cost_nothing(quiet_server: HttpServerProcess) -> None:
    for number in range(1000):
        with connected(quiet_server) as connection:
            if number % 2:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize("era", ERAS, ids=str)
def test_trailers_are_not_headers(quiet_server: HttpServerProcess) -> None:
    if not quiet_server.way.stateless:
        end = f"0\r\nMcp-Session-Id: {quiet_server.headers['Mcp-Session-Id']}\r\n\r\n".encode()
        data = head(quiet_server, length=TE.strip(), Mcp_Session_Id="", MCP_Protocol_Version=HANDSHAKE)
        data = data.replace(b"Mcp-Session-Id: \r\n", b"")
        assert exchange(quiet_server, data + chunked(LIST, end=end))[0] == 400
    else:
        end = b"0\r\nMcp-Method: tools/list\r\n\r\n"
        data = head(quiet_server, length=TE.strip()).replace(b"Mcp-Method: tools/list\r\n", b"")
        assert exchange(quiet_server, data + chunked(LIST, end=end))[0] == 400
