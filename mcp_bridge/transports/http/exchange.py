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

from starlette.types import ASGIApp, Message, Scope

logger = logging.getLogger("mcp_bridge.transports")

_FORBIDDEN = re.compile(rb"[\x00\r\n]")
_NO_BODY = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)


class Channel(Protocol):
    """What an exchange needs of its connection."""

    transport: asyncio.Transport

    async def drain(self) -> None:
        """Wait until the client reads."""

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
        self.keep_alive = keep_alive
        self.more_body = True
        self.response_started = False
        self.response_complete = False
        self._disconnected = False

    async def run(self, app: ASGIApp) -> None:
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

    async def receive(self) -> Message:
        """Return what has come of the body since the last call, once there is something."""
        if self._expects_continue and not self.response_started:
            self._channel.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._expects_continue = False
        if not self._disconnected and not self.response_complete:
            self._channel.transport.resume_reading()
            await self._news.wait()
            self._news.clear()
        if self._disconnected or self.response_complete:
            return {"type": "http.disconnect"}
        body, self._body = bytes(self._body), bytearray()
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    async def send(self, message: Message) -> None:
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
        """The request is complete."""
        self.more_body = False
        self._news.set()

    def disconnect(self) -> None:
        """Discard what the app sends from now on, and report the disconnection to it."""
        self._disconnected = True
        self._news.set()

    def _send_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        names = {name.lower() for name, _ in headers}
        if any(_FORBIDDEN.search(part) for header in headers for part in header):
            raise ValueError("a response header has a line break")
        if not self.keep_alive:
            headers.append((b"connection", b"close"))
        if b"content-length" not in names and self._scope["method"] != "HEAD" and status not in _NO_BODY:
            self._chunked = True
            headers.append((b"transfer-encoding", b"chunked"))
        if b"date" not in names:
            headers.append((b"date", _format_date(int(time.time()))))
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode(), *map(b": ".join, headers)]
        self.response_started = True
        self._channel.transport.write(b"\r\n".join((*lines, b"", b"")))

    def _send_body(self, body: bytes, *, more: bool) -> None:
        if self._scope["method"] != "HEAD":
            if self._chunked and body:
                body = b"%x\r\n%b\r\n" % (len(body), body)
            if self._chunked and not more:
                body += b"0\r\n\r\n"
            self._channel.transport.write(body)
        if not more:
            self.response_complete = True
            self._news.set()
            if not self.keep_alive:
                self._channel.transport.close()
            self._channel.finish_exchange()

    async def _send_server_error(self) -> None:
        body = b"Internal Server Error"
        headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(body))]
        self.keep_alive = False
        await self.send({"type": "http.response.start", "status": 500, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})


@lru_cache(maxsize=1)
def _format_date(second: int) -> bytes:
    """Return the value of the Date header (RFC 9110, 6.6.1)."""
    return formatdate(second, usegmt=True).encode()
