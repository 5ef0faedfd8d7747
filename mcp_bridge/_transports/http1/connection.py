"""HTTP/1.1 connections: httptools parses requests, an ASGI app handles them, and slow clients are disconnected.

A connection goes through these states. One timer checks their time limits.

1. It waits for a request, since `_waiting_since`. After the receive timeout it is closed. The pool may close it
   earlier, to make room for others.
2. It receives a request. Each complete head becomes an `Exchange` in the queue `_exchanges`. The app handles the first
   one, while its body and further requests arrive. Reading pauses while a body or the queue is long. After the receive
   timeout the request is rejected with 408.
3. It owes a response. Only the time in which the client does not read counts: the client has to read `MIN_PROGRESS`
   bytes within the send timeout, or the connection is reset.
4. It is rejected, because of a faulty request. Requests before that one are answered first (`_deferred_rejection`).
   Then all input is discarded for `LINGER_TIMEOUT`, so the client can read the rejection.

An ASGI app never sees a connection whose request is not complete, so the server has to limit how long a client takes to
send one, how long its head is, and how long it takes to read the response. Where another server runs the app, the
limits of that server hold, or those of a proxy in front of it (nginx: client_header_timeout, client_body_timeout,
send_timeout, large_client_header_buffers).
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
import struct
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from itertools import chain
from typing import Any, Protocol, cast
from urllib.parse import unquote

import httptools
import orjson

from mcp_bridge._contracts.jsonrpc import INVALID_REQUEST
from mcp_bridge._runtime.tasks import Notifier
from mcp_bridge._transports.http1.asgi import read_host_name
from mcp_bridge._transports.http1.exchange import Exchange

MAX_HEAD = 64 * 1024
"""The maximum number of bytes of a request before its body, and between or after the parts of a chunked one."""
MAX_HEADERS = 200
"""The maximum number of header lines of a request."""
MAX_BUFFERED = 64 * 1024
"""The number of bytes of a body after which reading pauses until the app has received them."""
MAX_QUEUED = 16
"""The number of requests in the queue of a connection at which reading pauses until some have their responses."""
MIN_PROGRESS = 16 * 1024
"""The minimum number of bytes that a client must read within the send timeout. Without it, a client could read byte by
byte, and hold the connection for ever."""
LINGER_TIMEOUT = 1.0
"""Seconds in which the input of a rejected client is discarded, so that the client receives the rejection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTimeouts:
    """The time limits for clients in seconds.

    Attributes:
        receive: The time from the first byte of a request to its last one.
        send: The time in which a client has to read a part of its response (MIN_PROGRESS).
    """

    receive: float = 10.0
    send: float = 60.0


class ConnectionOwner(Protocol):
    """The pool of a connection. Unless it `keeps_alive`, each response announces the end of its connection."""

    timeouts: ClientTimeouts
    keeps_alive: bool

    def add(self, connection: HttpConnection) -> None:
        """Add a new connection, and make room for it or reject it."""

    def discard(self, connection: HttpConnection) -> None:
        """Remove a closed connection."""

    def start_exchange(self, exchange: Exchange) -> None:
        """Start to handle a request."""

    def mark_waiting(self, connection: HttpConnection) -> None:
        """Allow the end of the connection, because its client has to send a request, or the rest of it."""

    def mark_busy(self, connection: HttpConnection) -> None:
        """Keep the connection open, because its client waits for a response."""


class HttpConnection(asyncio.Protocol):
    """One connection. It is closed if the client takes too long, or if it sends too long a head.

    The time limits count only the time the client itself takes, not the time in which the server does not read or the
    event loop is blocked.
    """

    transport: asyncio.Transport

    def __init__(self, pool: ConnectionOwner) -> None:
        self.pool = pool
        self._loop = asyncio.get_running_loop()
        # The app handles the first exchange, and the others wait for their turn.
        self._exchanges: list[Exchange] = []
        # The exchange of the request that was begun last.
        self._latest: Exchange | None = None
        self._common_scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "scheme": "http",
            "root_path": "",
        }
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._expects_continue = False
        # The number of pieces of data so far, each at most MAX_HEAD bytes long.
        self._pieces = 0
        # The number of the piece in which the latest request begins.
        self._begun_in = 0
        # The bytes outside of bodies since the last body.
        self._overhead = 0
        # Whether the current piece has completed a head or belongs to a body.
        self._has_progress = True
        self._ignores_upgrade = False
        self._rejection = HTTPStatus.BAD_REQUEST
        # Whether all further input of the client is discarded.
        self._is_rejected = False
        self._linger: asyncio.TimerHandle | None = None
        # The rejection of a faulty request, sent after the responses to the requests before it.
        self._deferred_rejection: HTTPStatus | None = None
        self._is_receiving = False
        # The time since when the client has to send something; None while the server has to respond.
        self._waiting_since: float | None = self._loop.time()
        self._writability = Notifier()
        self.is_writable = True
        # The size of the write buffer when the client last made progress, and the time at which it did.
        self._last_progress = (math.inf, 0.0)
        self._reset_parser()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # The transport of uvloop is not a subclass of asyncio.Transport.
        self.transport = cast("asyncio.Transport", transport)
        for name, key in (("client", "peername"), ("server", "sockname")):
            address = transport.get_extra_info(key)
            # The address of a Unix socket is a path, or empty.
            self._common_scope[name] = None
            if isinstance(address, tuple):
                self._common_scope[name] = (str(address[0]), int(address[1]))
        client = self._common_scope["client"]
        self.peer: str = client[0] if client else ""
        self._schedule_check()
        self.pool.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        if self._linger is not None:
            self._linger.cancel()
        for exchange in self._exchanges:
            exchange.disconnect()
        self.is_writable = True
        self._writability.notify()
        self.pool.discard(self)

    def close_when_answered(self) -> None:
        if self._exchanges:
            self._exchanges[-1].keep_alive = False
        else:
            self.transport.close()

    # Flow control

    def pause_writing(self) -> None:
        self.is_writable = False

    def resume_writing(self) -> None:
        self._last_progress = (math.inf, self._loop.time())
        self.is_writable = True
        self._writability.notify()

    async def drain(self) -> None:
        while not self.is_writable:
            await self._writability.wait_for_notification()

    # Parsing

    def data_received(self, data: bytes) -> None:
        # Data is parsed in pieces of at most the bytes that a head may still have, so that the limit for a head is the
        # same, however it is split into reads.
        while data and self._overhead < MAX_HEAD:
            if self._deferred_rejection is not None or self._is_rejected:
                return
            size = MAX_HEAD - self._overhead
            piece, data = data[:size], data[size:]
            self._has_progress = False
            self._pieces += 1
            self._feed(piece)
            self._overhead = 0 if self._has_progress else self._overhead + len(piece)
            if self._overhead >= MAX_HEAD:
                self.reject(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def _reset_parser(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        # Otherwise, data after a request with `Connection: close` would be an error before the response is sent.
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)

    def _feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._ignore_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            self.reject(self._rejection)

    def _ignore_upgrade(self, following: bytes) -> None:
        """Parse the head of a request again without its header Upgrade.

        The parser takes the bytes after such a head for another protocol. But a server may ignore the header (RFC 9110,
        7.8), and the client of Java sends it with each request, to offer HTTP/2 (h2c).
        """
        # After a CONNECT, any protocol could follow, so the connection ends with the response.
        if not self._ignores_upgrade:
            if self._latest is not None:
                self._latest.keep_alive = False
            return
        self._ignores_upgrade = False
        # Each of many such requests in one piece would be parsed again with all that follow it, in quadratic time.
        if self._exchanges:
            self.reject(self._rejection)
            return
        version = self._parser.get_http_version().encode()
        first = b"%b %b HTTP/%b" % (self._parser.get_method(), self._url, version)
        lines = [b": ".join(header) for header in self._headers if header[0] != b"upgrade"]
        self._reset_parser()
        self._feed(b"\r\n".join([first, *lines, b"", following]))

    def on_message_begin(self) -> None:
        self._url = b""
        self._headers = []
        self._expects_continue = False
        self._is_receiving = True
        self._begun_in = self._pieces
        self._waiting_since = self._loop.time()

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        self._headers.append((name, value))
        if name == b"expect" and value.lower() == b"100-continue":
            self._expects_continue = True

    def on_headers_complete(self) -> None:
        """Queue the request. A ValueError, for too long a head or another HTTP version, ends the parsing."""
        self._has_progress = True
        if self.transport.is_closing():
            raise ValueError("the connection is being closed")
        method, version = self._parser.get_method(), self._parser.get_http_version()
        if self._parser.should_upgrade() and method != b"CONNECT":
            self._ignores_upgrade = True
            return
        # The fields of a trailer arrive as headers, too, but must not become headers (RFC 9110, 6.5.1), so they are
        # collected in another list.
        headers, self._headers = self._headers, []
        # A head within one piece is not longer than a piece, so it need not be measured.
        is_split = self._begun_in != self._pieces
        if len(headers) > MAX_HEADERS or (is_split and len(self._url) + sum(map(len, chain(*headers))) > MAX_HEAD):
            self._rejection = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            raise ValueError("the head of the request is too long")
        if version not in ("1.1", "1.0"):
            self._rejection = HTTPStatus.HTTP_VERSION_NOT_SUPPORTED
            raise ValueError("only HTTP/1 is supported")
        path, raw_path, query = _split_target(self._url, dict(headers).get(b"host", b""))
        scope = {
            **self._common_scope,
            "method": method.decode(),
            "path": path,
            "raw_path": raw_path,
            "query_string": query,
            "headers": headers,
            "http_version": version,
        }
        exchange = Exchange(
            self,
            scope,
            keep_alive=version == "1.1" and self._parser.should_keep_alive() and self.pool.keeps_alive,
            # HTTP/1.0 has no 100 Continue (RFC 9110, 10.1.1).
            expects_continue=version == "1.1" and self._expects_continue,
        )
        self._latest = exchange
        self._exchanges.append(exchange)
        if len(self._exchanges) == 1:
            self.pool.start_exchange(exchange)
        elif len(self._exchanges) >= MAX_QUEUED:
            self.transport.pause_reading()

    def on_body(self, body: bytes) -> None:
        self._has_progress = True
        if self._latest is not None and self._latest.add_body(body) > MAX_BUFFERED:
            self.transport.pause_reading()

    def on_message_complete(self) -> None:
        self._has_progress = True
        if self._ignores_upgrade or self._latest is None:
            return
        self._is_receiving = False
        self._latest.end_body()
        self._waiting_since = self._loop.time() if self._latest.response_complete else None
        if self._waiting_since is None:
            self.pool.mark_busy(self)
        if self._latest.response_complete and not self._latest.keep_alive:
            self.transport.close()

    def resume_reading(self) -> None:
        """Continue to read, unless the queue is full. One read could add many requests."""
        if len(self._exchanges) < MAX_QUEUED:
            self.transport.resume_reading()

    def finish_exchange(self) -> None:
        """Continue after the response to the first request, with the next request or with the end of the connection."""
        exchange = self._exchanges.pop(0)
        if self._waiting_since is not None or not self._exchanges:
            self._waiting_since = self._loop.time()
        if not self._exchanges:
            self.pool.mark_waiting(self)
        if self.transport.is_closing():
            return
        if not exchange.keep_alive and not exchange.more_body:
            self.transport.close()
            return
        self.resume_reading()
        if not exchange.keep_alive:
            # The client still sends the rest of its request. Closing now would reset the connection, and the client
            # might lose the response (RFC 9112, 9.6).
            with contextlib.suppress(OSError):
                self.transport.write_eof()
        elif self._exchanges:
            self.pool.start_exchange(self._exchanges[0])
        elif self._deferred_rejection is not None:
            self.transport.write(_format_rejection(self._deferred_rejection))
            self._close_after_input()

    # Timeouts

    def _schedule_check(self) -> None:
        timeouts = self.pool.timeouts
        self._due = min(self._compute_deadline(), self._loop.time() + min(timeouts.receive, timeouts.send))
        self._timer = self._loop.call_at(self._due, self._check_timeouts)

    def _compute_deadline(self) -> float:
        """Return the deadline of the client."""
        if self._waits_for_reader():
            return self._last_progress[1] + self.pool.timeouts.send
        if self._waiting_since is None or self.transport.is_closing():
            return math.inf
        return self._waiting_since + self.pool.timeouts.receive

    def _check_timeouts(self) -> None:
        now = self._loop.time()
        # If the timer is late, the event loop was blocked, which is not the fault of the client.
        delay = max(0.0, now - self._due)
        if self._waiting_since is not None:
            self._waiting_since = now if self._owes_response() else self._waiting_since + delay
        self._measure_progress(now, delay)
        if self._compute_deadline() > now:
            self._schedule_check()
        elif self._waits_for_reader():
            # With this option, the kernel also discards unread output, which it would otherwise keep for minutes.
            client = self.transport.get_extra_info("socket")
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()
        elif not self._is_receiving:
            self.transport.abort()
        else:
            self.reject(HTTPStatus.REQUEST_TIMEOUT)
            self._schedule_check()

    def _owes_response(self) -> bool:
        """Return whether the client waits for the server: for a response, or because reading is paused."""
        if not self.transport.is_reading():
            return True
        latest = self._latest
        return latest is not None and not latest.response_complete and not latest.more_body

    def _waits_for_reader(self) -> bool:
        """Return whether output waits until the client reads."""
        has_last_output = self.transport.is_closing() and self.transport.get_write_buffer_size() > 0
        return has_last_output or not self.is_writable

    def _measure_progress(self, now: float, delay: float) -> None:
        """Note whether the client has read enough. `delay` is the time for which the event loop was blocked."""
        previous_size, since = self._last_progress
        size = self.transport.get_write_buffer_size()
        if not self._waits_for_reader():
            self._last_progress = (math.inf, now)
        elif size <= previous_size - MIN_PROGRESS:
            self._last_progress = (size, now)
        else:
            self._last_progress = (previous_size, since + delay)

    def reject(self, status: HTTPStatus) -> None:
        """Respond to the unfinished request, unless its response has begun, and close the connection.

        The responses to requests before it are sent first.
        """
        if self.transport.is_closing() or self._is_rejected:
            return
        unfinished = self._latest if self._latest is not None and self._latest.more_body else None
        has_earlier_requests = len(self._exchanges) > (unfinished is not None)
        if has_earlier_requests:
            if unfinished is not None:
                self._exchanges.pop()
                self._latest = self._exchanges[-1]
            self._deferred_rejection = status
            self._is_receiving = False
            self._waiting_since = None
            self.resume_reading()
            return
        if unfinished is None or not unfinished.response_started:
            self.transport.write(_format_rejection(status))
        if unfinished is not None:
            unfinished.disconnect()
        self._close_after_input()

    def _close_after_input(self) -> None:
        """Discard further input until the client closes the connection, or until LINGER_TIMEOUT.

        If the server closed a connection with unread input, the client might lose the response (RFC 9112, 9.6).
        """
        self._is_rejected = True
        self._waiting_since = None
        self.transport.resume_reading()
        with contextlib.suppress(OSError):
            self.transport.write_eof()
        self._linger = self._loop.call_later(LINGER_TIMEOUT, self.transport.abort)


@lru_cache(maxsize=64)
def _split_target(target: bytes, host: bytes) -> tuple[str, bytes, bytes]:
    """Return the path, the path as it was sent, and the query of a request's target.

    Raises ValueError for an invalid target, and for one on another host than the header Host.
    """
    url = httptools.parse_url(target)
    if url.userinfo or (url.host is not None and url.host.lower() != read_host_name(host).encode()):
        raise ValueError("the target of the request is not on the host that it names")
    return unquote(url.path.decode("ascii")), url.path, url.query or b""


def _format_rejection(status: HTTPStatus) -> bytes:
    error = {"code": INVALID_REQUEST, "message": f"{status.phrase}. The connection is closed."}
    body = orjson.dumps({"jsonrpc": "2.0", "id": None, "error": error})
    head = f"HTTP/1.1 {status} {status.phrase}\r\ncontent-type: application/json\r\nconnection: close\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body
