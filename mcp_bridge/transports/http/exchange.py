"""One HTTP request and its response, as the `receive` and `send` of an ASGI app."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Protocol

from mcp_bridge.transports.http.request import AsgiApp, AsgiMessage, Scope

logger = logging.getLogger("mcp_bridge.transports")

_FORBIDDEN = re.compile(rb"[\x00\r\n]")
_NO_BODY = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)


class Channel(Protocol):
    """What an exchange needs of its connection."""

    transport: asyncio.Transport

    async def drain(self) -> None:
        """Wait until the client reads."""

    def resume_reading(self) -> None:
        """Receive more of the body, or the disconnection."""

    def finish_exchange(self) -> None:
        """The response is complete."""


class Exchange:
    """One request and its response."""

    def __init__(self, channel: Channel, scope: Scope, *, keep_alive: bool, expects_continue: bool) -> None:
        self._channel = channel
        self._scope = scope
        self._expects_continue = expects_continue
        self._news = asyncio.Event()
        self._body = bytearray()
        self._chunked = False
        self._has_body = True
        self._unsent: int | None = None  # of the Content-Length
        self.keep_alive = keep_alive
        self.more_body = True
        self.response_started = False
        self.response_complete = False
        self._disconnected = False

    async def run(self, app: AsgiApp) -> None:
        """Call the app. Never raises: SystemExit, which a tool may raise, would end the event loop."""
        try:
            await app(self._scope, self.receive, self.send)
        except BaseException as error:
            if not isinstance(error, asyncio.CancelledError):
                logger.error("a request over HTTP failed with an unexpected error", exc_info=error)
            if not self.response_started:
                await self._send_server_error()
        if not self.response_complete and not self._disconnected:
            self._channel.transport.close()

    async def receive(self) -> AsgiMessage:
        """Return what has come of the body since the last call, once there is something."""
        if not self._disconnected and not self.response_complete:
            if self._expects_continue and not self.response_started and self.more_body:
                self._channel.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._expects_continue = False
            self._channel.resume_reading()
            await self._news.wait()
            self._news.clear()
        if self._disconnected or self.response_complete:
            return {"type": "http.disconnect"}
        body, self._body = bytes(self._body), bytearray()
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    async def send(self, message: AsgiMessage) -> None:
        """Send the head or a part of the body of the response; waits while the client does not read."""
        await self._channel.drain()
        if self._disconnected:
            return
        if not self.response_started:
            self._send_head(message["status"], list(message.get("headers", ())))
        elif not self.response_complete:
            self._send_body(message.get("body", b""), more=message.get("more_body", False))

    def add_body(self, data: bytes) -> int:
        """Take a part of the request's body; returns how many bytes wait for the app."""
        if self.response_complete:
            return 0
        self._body += data
        self._news.set()
        return len(self._body)

    def end_body(self) -> None:
        self.more_body = False
        self._news.set()

    def disconnect(self) -> None:
        """Discard what the app sends from now on, and report the disconnection to it."""
        self._disconnected = True
        self._news.set()

    def _send_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        if any(_FORBIDDEN.search(part) for header in headers for part in header):
            raise ValueError("a response header has a line break")
        fields = {name.lower(): value for name, value in headers}
        if self._expects_continue and self.more_body:  # the client may send its next request in place of the body
            self.keep_alive = False
        if not self.keep_alive:
            headers = [header for header in headers if header[0].lower() != b"connection"]
            headers.append((b"connection", b"close"))
        self._has_body = self._scope["method"] != "HEAD" and status not in _NO_BODY
        if b"content-length" in fields:
            self._unsent = int(fields[b"content-length"])
        elif self._has_body and self._scope["http_version"] == "1.1":  # to HTTP/1.0, the end of the connection ends it
            self._chunked = True
            headers.append((b"transfer-encoding", b"chunked"))
        if b"date" not in fields:
            headers.append((b"date", _format_date(int(time.time()))))
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode(), *map(b": ".join, headers)]
        self.response_started = True
        self._channel.transport.write(b"\r\n".join((*lines, b"", b"")))

    def _send_body(self, body: bytes, *, more: bool) -> None:
        if self._has_body:
            if self._unsent is not None:
                self._unsent -= len(body)
                if self._unsent < 0 or (self._unsent and not more):
                    # The client would take the next response for the rest of this one, or the other way round.
                    raise ValueError("the body of a response is not as long as its Content-Length")
            if self._chunked and body:
                body = b"%x\r\n%b\r\n" % (len(body), body)
            if self._chunked and not more:
                body += b"0\r\n\r\n"
            self._channel.transport.write(body)
        if not more:
            self.response_complete = True
            self._news.set()
            self._channel.finish_exchange()

    async def _send_server_error(self) -> None:
        body = b"Internal Server Error"
        headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(body))]
        self.keep_alive = False
        await self.send({"type": "http.response.start", "status": 500, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})


@lru_cache(maxsize=1)
def _format_date(second: int) -> bytes:
    return formatdate(second, usegmt=True).encode()
