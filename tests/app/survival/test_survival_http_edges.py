"""Unusual HTTP requests get the correct status, without errors in the log or delays for other clients."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import struct
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from tests.client.server_process import HttpServerProcess, Way
from tests.kits.constants import ENVELOPE, HANDSHAKE, TIMEOUT
from tests.kits.survival.fault_kit import SharedServers
from tests.kits.survival.survival_kit import SECOND_WAY, run_server

LIST = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {"_meta": ENVELOPE}}).encode()
STATELESS_HTTP = Way("http", stateless=True)
ERAS = [STATELESS_HTTP, SECOND_WAY]
CHUNKED = "Transfer-Encoding: chunked"
EXPECTED_LOG = ("begun ", "Could not find session for ID", "request without session_id")
"""Parts of the lines that the log may contain."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedServers]:
    """Yield one server for each era, so that later requests show the damage of earlier ones."""
    with contextlib.closing(SharedServers(lambda way: run_server(way, tmp_path_factory.mktemp("edges")))) as servers:
        yield servers


@pytest.fixture
def era() -> Way:
    """Return the era for tests without protocol messages."""
    return STATELESS_HTTP


@pytest.fixture
def quiet_server(era: Way, shared: SharedServers) -> Iterator[HttpServerProcess]:
    """Yield a server with another call in flight. At the end, check that it has logged nothing unexpected."""
    server = shared.server(era)
    log_length = len(server.stderr)
    with server.keep_call_in_flight():
        yield server
    # The response to this call comes after all earlier messages, so the log is complete.
    with server.keep_call_in_flight():
        lines = server.stderr[log_length:].splitlines()
    assert not [line for line in lines if line.strip() and not any(words in line for words in EXPECTED_LOG)]


def run_mostly_in_one_era(
    table: dict[str, tuple[Any, ...]], names: str, smoke: Iterable[str] = ()
) -> pytest.MarkDecorator:
    """Run each row of a table in one era, and a few rows in the other."""
    cases = [*((STATELESS_HTTP, name) for name in table), *((SECOND_WAY, name) for name in smoke)]
    rows = [pytest.param(era, *table[name], id=f"{era}-{name}") for era, name in cases]
    return pytest.mark.parametrize(("era", *names.split()), rows)


@contextlib.contextmanager
def open_connection(server: HttpServerProcess) -> Iterator[socket.socket]:
    """Open a TCP connection."""
    host, _, port = server.base.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=TIMEOUT) as connection:
        yield connection


def read_response(connection: socket.socket) -> tuple[int, bytes]:
    """Return the status and the bytes of the next response. The status is 0 if the connection closes without one."""
    data = b""
    with contextlib.suppress(ConnectionError):
        while b"\r\n\r\n" not in data and (chunk := connection.recv(65536)):
            data += chunk
    status = 0
    if data.startswith(b"HTTP/1.1 "):
        status = int(data.split(b" ", 2)[1])
    return status, data


def close_with_reset(connection: socket.socket) -> None:
    """Close a connection with a reset: SO_LINGER with a timeout of 0."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def send_bytes(server: HttpServerProcess, data: bytes) -> tuple[int, bytes]:
    """Send bytes, and return the status and the bytes of the response."""
    with open_connection(server) as connection:
        # The server may reject the body before all of it is sent.
        with contextlib.suppress(ConnectionError):
            connection.sendall(data)
        return read_response(connection)


def make_head(
    server: HttpServerProcess,
    *more: str,
    first: str = "POST /mcp HTTP/1.1",
    host: str = "Host: 127.0.0.1",
    length: str = f"Content-Length: {len(LIST)}",
    **replaced: str,
) -> bytes:
    """Return the head of a request, valid except for the arguments; `replaced` are other values of its headers."""
    headers = {**server.headers, "Mcp-Method": "tools/list"}
    headers.update({name.replace("_", "-"): value for name, value in replaced.items()})
    lines = [first, host, *(f"{name}: {value}" for name, value in headers.items()), *more, length]
    return ("\r\n".join(line for line in lines if line) + "\r\n\r\n").encode("latin-1")


def encode_chunks(*pieces: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    """Return a body in chunks."""
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + end


LENGTHS: dict[str, tuple[str, bytes, int]] = {
    "right": (f"Content-Length: {len(LIST)}", LIST, 200),
    "too small": ("Content-Length: 5", LIST, 400),
    "negative": ("Content-Length: -5", LIST, 400),
    "no number": ("Content-Length: many", LIST, 400),
    "beyond 64 bits": ("Content-Length: " + "9" * 30, LIST, 400),
    "too large": ("Content-Length: 999999999999999999", b"", 413),
    "a byte too large": (f"Content-Length: {4 * 1024 * 1024 + 1}", b"", 413),
    "twice": (f"Content-Length: 5\r\nContent-Length: {len(LIST)}", LIST, 400),
    "twice the same": (f"Content-Length: {len(LIST)}\r\nContent-Length: {len(LIST)}", LIST, 400),
    "a list": (f"Content-Length: {len(LIST)}, {len(LIST)}", LIST, 400),
    "nothing": ("Content-Length: 0", b"", 400),
    "none": ("", b"", 400),
    "chunked": (CHUNKED, encode_chunks(LIST), 200),
    "chunked byte by byte": (CHUNKED, encode_chunks(*(bytes([byte]) for byte in LIST)), 200),
    "chunked with a length": (f"{CHUNKED}\r\nContent-Length: {len(LIST)}", encode_chunks(LIST), 400),
    "a length before chunked": (f"Content-Length: {len(LIST)}\r\n{CHUNKED}", encode_chunks(LIST), 400),
    "not quite chunked": ("Transfer-Encoding: xchunked", encode_chunks(LIST), 400),
    "gzip, chunked": ("Transfer-Encoding: gzip, chunked", encode_chunks(LIST), 415),
    "chunked, gzip": ("Transfer-Encoding: chunked, gzip", encode_chunks(LIST), 400),
    "a blank before the colon": ("Transfer-Encoding : chunked", encode_chunks(LIST), 400),
    "a blank at the end": ("Transfer-Encoding: chunked ", encode_chunks(LIST), 200),
    "a size that is none": (CHUNKED, b"zz\r\nabc\r\n0\r\n\r\n", 400),
    "a size beyond 64 bits": (CHUNKED, b"f" * 20 + b"\r\nabc\r\n0\r\n\r\n", 400),
    "line feeds alone": (CHUNKED, encode_chunks(LIST).replace(b"\r\n", b"\n"), 400),
    "a trailer": (CHUNKED, encode_chunks(LIST, end=b"0\r\nHost: evil.example\r\nMcp-Session-Id: x\r\n\r\n"), 200),
    "a trailer without end": (CHUNKED, encode_chunks(LIST, end=b"0\r\nX: ") + b"a" * 2_000_000, 431),
}


@run_mostly_in_one_era(
    LENGTHS, "length body status", smoke=["right", "chunked", "chunked with a length", "a byte too large"]
)
def test_only_bodies_with_a_correct_length_and_encoding_are_accepted(
    quiet_server: HttpServerProcess, length: str, body: bytes, status: int
) -> None:
    assert send_bytes(quiet_server, make_head(quiet_server, length=length) + body)[0] == status


ADDED_HEADERS: dict[str, tuple[str, int]] = {
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
    "the Origin null": ("Origin: null", 403),
    "our Origin": ("Origin: http://127.0.0.1", 200),
    "two Origins": ("Origin: http://127.0.0.1\r\nOrigin: https://evil.example", 400),
    "another Content-Type": ("Content-Type: text/plain", 400),
    "two sessions": ("Mcp-Session-Id: a\r\nMcp-Session-Id: b", 400),
    "gzip": ("Content-Encoding: gzip", 415),
    "an upgrade to WebSocket": ("Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13", 200),
    "an upgrade to HTTP/2": ("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA", 200),
    "an odd expectation": ("Expect: a miracle", 200),
}


@run_mostly_in_one_era(
    ADDED_HEADERS, "line status", smoke=["a foreign Origin", "two sessions", "another Content-Type", "gzip"]
)
def test_an_odd_header_is_rejected_or_ignored(quiet_server: HttpServerProcess, line: str, status: int) -> None:
    assert send_bytes(quiet_server, make_head(quiet_server, line) + LIST)[0] == status


REPLACED_HEADERS: dict[str, tuple[dict[str, str], int]] = {
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


@run_mostly_in_one_era(
    REPLACED_HEADERS, "replaced status", smoke=[name for name in REPLACED_HEADERS if "Host" not in name]
)
def test_relevant_headers_are_checked(quiet_server: HttpServerProcess, replaced: dict[str, str], status: int) -> None:
    assert send_bytes(quiet_server, make_head(quiet_server, **replaced) + LIST)[0] == status


REQUEST_LINES: dict[str, tuple[str, int]] = {
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
    "an unknown method": ("GARBAGE /mcp HTTP/1.1", 400),
    "a method in small letters": ("post /mcp HTTP/1.1", 400),
    "PUT": ("PUT /mcp HTTP/1.1", 405),
    "OPTIONS": ("OPTIONS /mcp HTTP/1.1", 405),
    "HEAD": ("HEAD /mcp HTTP/1.1", 405),
    "CONNECT with a path": ("CONNECT /mcp HTTP/1.1", 405),
    "CONNECT": ("CONNECT evil.example:443 HTTP/1.1", 400),
}


@run_mostly_in_one_era(REQUEST_LINES, "first status", smoke=["HTTP/1.0", "a slash at the end", "PUT"])
def test_an_odd_request_line_is_answered(quiet_server: HttpServerProcess, first: str, status: int) -> None:
    assert send_bytes(quiet_server, make_head(quiet_server, first=first) + LIST)[0] == status


OTHER_PROTOCOLS: dict[str, bytes] = {
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    "SSH": b"SSH-2.0-OpenSSH_9.9\r\n",
    "JSON": LIST + b"\n",
}


@pytest.mark.parametrize("data", OTHER_PROTOCOLS.values(), ids=OTHER_PROTOCOLS)
def test_another_protocol_is_rejected_and_the_connection_closed(quiet_server: HttpServerProcess, data: bytes) -> None:
    with open_connection(quiet_server) as connection:
        connection.sendall(data)
        status, _ = read_response(connection)
        assert status == 400
        with contextlib.suppress(ConnectionError):
            assert connection.recv(1) == b""


def test_endless_headers_are_rejected_in_constant_memory(quiet_server: HttpServerProcess) -> None:
    before = quiet_server.rss
    for _ in range(20):
        with open_connection(quiet_server) as connection, contextlib.suppress(ConnectionError):
            connection.sendall(make_head(quiet_server)[:-2] + b"X: ")
            for _ in range(100):
                connection.sendall(b"a" * 100_000)
            assert read_response(connection)[0] == 431
    assert quiet_server.rss - before < 20_000_000


@pytest.mark.parametrize("length", ["Content-Length: 300000000", CHUNKED], ids=["with a length", "without"])
def test_a_body_that_is_too_large_is_rejected_in_constant_memory(quiet_server: HttpServerProcess, length: str) -> None:
    before, piece = quiet_server.rss, b"%x\r\n%s\r\n" % (1_000_000, b"a" * 1_000_000)
    with open_connection(quiet_server) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(make_head(quiet_server, length=length))
        for _ in range(100):
            connection.sendall(piece)
    assert send_bytes(quiet_server, make_head(quiet_server, length=length) + piece * 5)[0] == 413
    assert quiet_server.rss - before < 40_000_000


def test_a_client_that_waits_for_100_continue_gets_it(quiet_server: HttpServerProcess) -> None:
    with open_connection(quiet_server) as connection:
        connection.sendall(make_head(quiet_server, "Expect: 100-continue"))
        assert read_response(connection)[0] == 100
        connection.sendall(LIST)
        assert read_response(connection)[0] == 200


def test_a_request_with_a_large_content_length_is_rejected_before_its_body(quiet_server: HttpServerProcess) -> None:
    with open_connection(quiet_server) as connection:
        connection.sendall(make_head(quiet_server, "Expect: 100-continue", length="Content-Length: 99999999"))
        assert read_response(connection)[0] == 413


def test_a_request_in_single_bytes_is_a_request(quiet_server: HttpServerProcess) -> None:
    with open_connection(quiet_server) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in make_head(quiet_server) + LIST:
            connection.send(bytes([byte]))
        assert read_response(connection)[0] == 200


def test_empty_lines_before_a_request_are_ignored(quiet_server: HttpServerProcess) -> None:
    assert send_bytes(quiet_server, b"\r\n" * 3 + make_head(quiet_server) + LIST)[0] == 200


def read_whole_response(connection: socket.socket) -> bytes:
    """Return the next response from its first byte to its last."""
    status, data = read_response(connection)
    assert status == 200, data
    length = re.search(rb"\r\ncontent-length: (\d+)\r\n", data.lower())
    if length is not None:
        total = data.index(b"\r\n\r\n") + 4 + int(length[1])
        while len(data) < total:
            data += connection.recv(65536)
    else:
        # A chunked body ends with an empty chunk.
        while not data.endswith(b"0\r\n\r\n"):
            data += connection.recv(65536)
    return data


def test_an_upgrade_that_is_not_made_leaves_the_connection_for_more(quiet_server: HttpServerProcess) -> None:
    with open_connection(quiet_server) as connection:
        for number, upgrade in enumerate(["h2c", "websocket", ""]):
            body = encode_chunks(LIST.replace(b'"id": 7', b'"id": %d' % (70 + number)))
            lines = ["Connection: Upgrade, HTTP2-Settings", f"Upgrade: {upgrade}"] if upgrade else []
            connection.sendall(make_head(quiet_server, *lines, length=CHUNKED) + body)
            assert b'"tools"' in read_whole_response(connection)


def test_five_hundred_upgrades_in_one_piece_get_a_response(quiet_server: HttpServerProcess) -> None:
    request = make_head(quiet_server, "Connection: Upgrade", "Upgrade: h2c") + LIST
    assert send_bytes(quiet_server, request * 500)[0] in (200, 400)


def test_a_thousand_pipelined_requests_get_responses_in_order(quiet_server: HttpServerProcess) -> None:
    with open_connection(quiet_server) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000)
        data = b""
        while data.count(b"HTTP/1.1 200 ") < 1000 and (chunk := connection.recv(65536)):
            data += chunk
    assert data.count(b"HTTP/1.1 200 ") == 1000


def test_a_client_that_closes_its_side_gets_a_response_or_is_closed(quiet_server: HttpServerProcess) -> None:
    with open_connection(quiet_server) as connection:
        connection.sendall(make_head(quiet_server) + LIST)
        connection.shutdown(socket.SHUT_WR)
        assert read_response(connection)[0] in (0, 200)


# The ends of slices of a request.
CUTS = {"in the head": 30, "at the end of the head": -len(LIST), "in the body": -10, "at the end": None}


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
def test_a_client_that_disconnects_in_the_middle_has_no_effect(
    quiet_server: HttpServerProcess, cut: int | None, reset: bool
) -> None:
    for length in (f"Content-Length: {len(LIST)}", f"Content-Length: {len(LIST) + 5}"):
        for _ in range(5):
            with open_connection(quiet_server) as connection:
                connection.sendall((make_head(quiet_server, length=length) + LIST)[:cut])
                if reset:
                    close_with_reset(connection)


@pytest.mark.parametrize("path", ["/messages?session_id=" + "a" * 32, "/messages", "/sse", "/health"])
def test_a_client_of_another_path_may_disconnect_early(quiet_server: HttpServerProcess, path: str) -> None:
    for _ in range(5):
        with open_connection(quiet_server) as connection:
            connection.sendall(make_head(quiet_server, first=f"POST {path} HTTP/1.1") + LIST[:-10])


def test_a_message_for_an_sse_stream_that_breaks_off_has_no_effect(quiet_server: HttpServerProcess) -> None:
    with quiet_server.http.stream("GET", "/sse") as stream:
        path = next(line for line in stream.iter_lines() if line.startswith("data: ")).removeprefix("data: ")
        for length in (f"Content-Length: {len(LIST)}", f"Content-Length: {len(LIST) + 5}"):
            with open_connection(quiet_server) as connection:
                connection.sendall((make_head(quiet_server, first=f"POST {path} HTTP/1.1", length=length) + LIST)[:-10])


def test_a_thousand_connections_that_are_dropped_have_no_effect(quiet_server: HttpServerProcess) -> None:
    for number in range(1000):
        with open_connection(quiet_server) as connection:
            if number % 2:
                close_with_reset(connection)


@pytest.mark.parametrize("era", ERAS, ids=str)
def test_trailers_are_not_headers(quiet_server: HttpServerProcess) -> None:
    if not quiet_server.way.stateless:
        end = f"0\r\nMcp-Session-Id: {quiet_server.headers['Mcp-Session-Id']}\r\n\r\n".encode()
        data = make_head(quiet_server, length=CHUNKED, Mcp_Session_Id="", MCP_Protocol_Version=HANDSHAKE)
        data = data.replace(b"Mcp-Session-Id: \r\n", b"")
        assert send_bytes(quiet_server, data + encode_chunks(LIST, end=end))[0] == 400
    else:
        end = b"0\r\nMcp-Method: tools/list\r\n\r\n"
        data = make_head(quiet_server, length=CHUNKED).replace(b"Mcp-Method: tools/list\r\n", b"")
        assert send_bytes(quiet_server, data + encode_chunks(LIST, end=end))[0] == 400
