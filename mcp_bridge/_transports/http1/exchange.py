"""One HTTP request and its response, as the `receive` and `send` of an ASGI app, or a whole response in one step.

The connection adds the request's body as it arrives (`add_body`, `end_body`), and the app takes it by `receive`. After
the body, `receive` waits until the response is complete or the client has disconnected (`disconnect`). The app may
respond before it has received the whole body. Then the connection cannot be used for another request, unless the client
still sends the rest.

The head of a response is written together with the first part of its body. A body without a Content-Length is sent in
chunks. If the app has failed in the middle of a response, the connection is closed, so the client notices it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Protocol

from mcp_bridge._transports.http1.asgi import WHOLE_RESPONSE, AsgiMessage, Headers, Scope

logger = logging.getLogger("mcp_bridge.transports")

_NO_BODY = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)


class Channel(Protocol):
    """The connection of an exchange."""

    transport: asyncio.Transport
    is_writable: bool

    async def drain(self) -> None:
        """Wait until the client has read enough for further output."""

    def resume_reading(self) -> None:
        """Continue to read, to receive more of the body or to notice the end of the connection."""

    def finish_exchange(self) -> None:
        """Continue with the next request, because the response is complete."""


class Exchange:
    """One request and its response."""

    def __init__(self, channel: Channel, scope: Scope, *, keep_alive: bool, expects_continue: bool) -> None:
        self._channel = channel
        self._scope: Scope | None = scope
        self._method: str = scope["method"]
        self._version: str = scope["http_version"]
        self._expects_continue = expects_continue
        # The parts of the request's body that the app has not received, and their size.
        self._parts: list[bytes] = []
        self._size = 0
        self._has_change = False
        self._waiter: asyncio.Future[None] | None = None
        # The head of the response, until it is written with the first part of the body (ASGI: HTTP, "Response Start").
        self._head = b""
        self._chunked = False
        self._has_body = True
        # The number of bytes of the body that are not sent yet; None without a Content-Length.
        self._unsent: int | None = None
        self.keep_alive = keep_alive
        self.more_body = True
        self.response_started = False
        self.response_complete = False
        self._disconnected = False

    def take_scope(self) -> Scope:
        """Return the scope once, and keep no reference to it.

        The scope refers to this exchange. If the exchange referred to the scope, only the garbage collector could free
        both of them.
        """
        scope, self._scope = self._scope, None
        assert scope is not None
        scope["extensions"] = {WHOLE_RESPONSE: self.respond}
        return scope

    async def fail(self, error: BaseException) -> None:
        """Log an error of the app, and report it to the client if the response has not begun."""
        if not isinstance(error, asyncio.CancelledError):
            logger.error("a request over HTTP failed with an unexpected error", exc_info=error)
        if not self.response_started:
            self.keep_alive = False
            await self.respond(500, [(b"content-type", b"text/plain")], b"Internal Server Error")

    def end(self) -> None:
        """Close the connection if the app has ended without completing the response."""
        if not self.response_complete and not self._disconnected:
            self._channel.transport.close()

    async def receive(self) -> AsgiMessage:
        """Wait for a part of the body, and return everything that has arrived since the last call."""
        if not self._disconnected and not self.response_complete:
            if self._expects_continue and not self.response_started and self.more_body:
                self._channel.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._expects_continue = False
            if not self._has_change:
                self._channel.resume_reading()
                self._waiter = asyncio.get_running_loop().create_future()
                await self._waiter
            self._has_change = False
        if self._disconnected or self.response_complete:
            return {"type": "http.disconnect"}
        body = b"".join(self._parts)
        self._parts, self._size = [], 0
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    async def send(self, message: AsgiMessage) -> None:
        """Send the head or a part of the body of the response. Waits while the client does not read."""
        if not self._channel.is_writable:
            await self._channel.drain()
        if self._disconnected:
            return
        if not self.response_started:
            self._begin_response(message["status"], message.get("headers", ()))
        elif not self.response_complete:
            self._send_body(message.get("body", b""), more=message.get("more_body", False))

    async def respond(self, status: int, headers: Headers, body: bytes) -> None:
        """Send the whole response (WHOLE_RESPONSE)."""
        if not self._channel.is_writable:
            await self._channel.drain()
        if not self._disconnected:
            self._begin_response(status, headers, len(body))
            self._send_body(body, more=False)

    def add_body(self, data: bytes) -> int:
        """Add a part of the request's body. Return the number of bytes that wait for the app."""
        if self.response_complete:
            return 0
        self._parts.append(data)
        self._size += len(data)
        self._notify()
        return self._size

    def end_body(self) -> None:
        self.more_body = False
        self._notify()

    def disconnect(self) -> None:
        """Discard all further output of the app, and report the disconnection to it."""
        self._disconnected = True
        self._notify()

    def _notify(self) -> None:
        self._has_change = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _begin_response(self, status: int, headers: Headers, length: int | None = None) -> None:
        # The client still waits for 100 Continue, so after this response, it may send its next request in place of the
        # body.
        if self._expects_continue and self.more_body:
            self.keep_alive = False
        head, self._unsent = _format_head(status, tuple(headers), self.keep_alive)
        if length is not None:
            head += b"content-length: %d\r\n" % length
            self._unsent = length
        self._has_body = self._method != "HEAD" and status not in _NO_BODY
        if self._unsent is None and self._has_body and self._version == "1.1":
            # In HTTP/1.0, the end of the connection ends the body.
            self._chunked = True
            head += b"transfer-encoding: chunked\r\n"
        self._head = head + _format_date(int(time.time()))
        self.response_started = True

    def _send_body(self, body: bytes, *, more: bool) -> None:
        if not self._has_body:
            body = b""
        elif self._unsent is not None:
            self._unsent -= len(body)
            if self._unsent < 0 or (self._unsent and not more):
                # The client would take the next response for the rest of this one, or the other way round.
                self._channel.transport.write(self._head)
                raise ValueError("the body of a response is not as long as its Content-Length")
        elif self._chunked:
            if body:
                body = b"%x\r\n%b\r\n" % (len(body), body)
            if not more:
                body += b"0\r\n\r\n"
        head, self._head = self._head, b""
        self._channel.transport.write(head + body if head else body)
        if not more:
            self.response_complete = True
            self._notify()
            self._channel.finish_exchange()


@lru_cache(maxsize=64)
def _format_head(status: int, headers: tuple[tuple[bytes, bytes], ...], keep_alive: bool) -> tuple[bytes, int | None]:
    """Return the status line with the headers, and the Content-Length if there is one. Raises ValueError.

    Most responses have the same headers, so the results are cached.
    """
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode()]
    length = None
    for name, value in headers:
        if name == b"connection" and not keep_alive:
            continue
        if name == b"content-length":
            length = int(value)
        lines.append(b"%b: %b" % (name, value))
    if not keep_alive:
        lines.append(b"connection: close")
    head = b"\r\n".join(lines)
    if head.count(b"\r") != len(lines) - 1 or head.count(b"\n") != len(lines) - 1 or b"\0" in head:
        raise ValueError("a response header has a line break")
    return head + b"\r\n", length


@lru_cache(maxsize=1)
def _format_date(second: int) -> bytes:
    """Return the last lines of a head. The date is the same for a second."""
    return b"date: " + formatdate(second, usegmt=True).encode() + b"\r\n\r\n"
