"""How long a client may take: to send a request, and to take its answer.

uvicorn has no time-out for either, and no limit for the head of a request. These hold where the bridge's own server
runs (`serve`, `mcp-bridge serve --http`), because an ASGI app never sees a connection whose request is not whole
yet. Where another server runs our app, its own limits hold, or those of a proxy before it (nginx:
client_header_timeout, client_body_timeout, send_timeout, large_client_header_buffers).
"""

from __future__ import annotations

import asyncio
import math
import socket
import struct
import sys
from dataclasses import dataclass
from http import HTTPStatus

import httptools
import orjson
from mcp_types import INVALID_REQUEST
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD = 64 * 1024
"""The most bytes of a request before its body, and between or after the parts of a chunked one."""
HEADERS = 200
"""The most header lines of a request."""
STEP = 16 * 1024
"""The least bytes of an answer that a slow client must take in its time: bytes one by one hold a place as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Seconds: `receive` from the first byte of a request to its last, `send` for a client that takes nothing."""

    receive: float = 10.0
    send: float = 60.0

    def protocol(self) -> type[PatientProtocol]:
        """The protocol to serve connections with (`http` in uvicorn's Config)."""

        class Patient(PatientProtocol):
            patience = self

        return Patient


class PatientProtocol(HttpToolsProtocol):
    """uvicorn's protocol for one connection, which it closes when the client takes too long or sends too long a head.

    One timer looks at the connection when something could be over at the earliest. A request whose rest is awaited
    is answered with 408; a connection that never began one is closed without a word, as after an idle while.
    Only the client's own time counts: not while the bridge reads nothing from it, and not while the loop stood still.
    """

    patience = Patience()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._awaited: float | None = self.loop.time()  # since when the client has to send something
        self._begun = False  # whether a part of a request has come
        self._loose = 0  # bytes that belong to no body, since the last that did
        self._told = True
        self._upgrading = False
        self._status = HTTPStatus.BAD_REQUEST
        self._taken = (math.inf, 0.0)  # what was left to send, and when it was so much
        self._look_again()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what has come."""
        self._told = False
        self._data = data
        super().data_received(data)
        self._loose = 0 if self._told else self._loose + len(data)
        if self._loose > HEAD and not self.transport.is_closing():
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        super().on_message_begin()
        self._begun = True
        self._awaited = self.loop.time()

    def on_headers_complete(self) -> None:
        """The head is whole. Raises ValueError when it is too long or of another HTTP, which ends the parsing."""
        self._told = True
        if self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT":
            self._upgrading = True  # the parser takes the body for another protocol; it is asked again
            return
        if len(self.headers) > HEADERS or (self._loose + len(self._data) > HEAD and self._head_size() > HEAD):
            self._status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            raise ValueError("the head of a request is too long")
        if self.parser.get_http_version() not in ("1.1", "1.0"):
            self._status = HTTPStatus.HTTP_VERSION_NOT_SUPPORTED
            raise ValueError("only HTTP/1 is spoken here")
        super().on_headers_complete()
        self.headers = []  # those of a trailer come here, and are not those that were checked (RFC 9110, 6.5.1)

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._told = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        self._told = True
        if self._upgrading:
            return
        self._begun = False
        super().on_message_complete()
        self.cycle.more_body = False  # uvicorn leaves it where the answer came first
        self._awaited = self.loop.time() if self.cycle.response_complete else None

    def on_response_complete(self) -> None:
        """Answered: the client has to send the next, or the rest of what was refused."""
        if self._awaited is not None or not self.pipeline:
            self._awaited = self.loop.time()
        super().on_response_complete()

    def resume_writing(self) -> None:
        """The client has taken most of what was left."""
        self._taken = (math.inf, self.loop.time())
        super().resume_writing()

    def _unsupported_upgrade_warning(self) -> None:
        """Read the request again as if nobody had asked for an upgrade, as Java's client does in every one (h2c)."""
        if not self._upgrading:  # CONNECT: what follows could be anything
            self.cycle.keep_alive = False
            return
        self._upgrading = False
        if self.cycle is not None and not self.cycle.response_complete:
            self._refuse(self._status)  # each of many in one piece would be read again with all that follow
            return
        error = sys.exception()
        assert isinstance(error, httptools.HttpParserUpgrade)
        lines = [b": ".join(header) for header in self.headers if header[0] != b"upgrade"]
        first = b"%s %s HTTP/1.1" % (self.parser.get_method(), self.url)
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
        super().data_received(b"\r\n".join([first, *lines, b"", self._data[error.args[0] :]]))

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be parsed."""
        self._refuse(self._status)

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) for name, value in self.headers)

    def _look_again(self) -> None:
        self._due = min(self._over(), self.loop.time() + min(self.patience.receive, self.patience.send))
        self._timer = self.loop.call_at(self._due, self._look)

    def _over(self) -> float:
        """When the client's time is over, as things are."""
        if self._holds():
            return self._taken[1] + self.patience.send
        if self._awaited is None or self.transport.is_closing():
            return math.inf
        return self._awaited + self.patience.receive

    def _look(self) -> None:
        now = self.loop.time()
        late = max(0.0, now - self._due)
        if self._awaited is not None:
            self._awaited = now if self._answering() else self._awaited + late
        self._measure(now, late)
        if self._over() > now:
            self._look_again()
        elif self._holds():
            self._cut()
        elif not self._begun:
            self.transport.abort()
        else:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT)
            self._look_again()

    def _answering(self) -> bool:
        """Whether the client has to wait for us: an earlier request is not answered, or nothing is read."""
        answered = self.cycle is None or self.cycle.response_complete or self.cycle.more_body
        return self.flow.read_paused or not answered

    def _holds(self) -> bool:
        """Whether the client has to take something before anything goes on."""
        return self.flow.write_paused or (self.transport.is_closing() and self.transport.get_write_buffer_size() > 0)

    def _measure(self, now: float, late: float) -> None:
        left, since = self._taken
        size = self.transport.get_write_buffer_size()
        if not self._holds():
            self._taken = (math.inf, now)
        elif size <= left - STEP:
            self._taken = (size, now)
        else:
            self._taken = (left, since + late)

    def _cut(self) -> None:
        """Forget what the client does not take, in the kernel as well: it would keep it for minutes."""
        kept = self.transport.get_extra_info("socket")
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def _refuse(self, status: HTTPStatus) -> None:
        """Answer as far as nothing else was said yet, and close."""
        if self.transport.is_closing():
            return
        cycle = self.cycle
        if cycle is None or not cycle.response_started or (cycle.response_complete and not cycle.more_body):
            self.transport.write(_refusal(status))
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True  # what the app says from now on, nobody hears
            cycle.message_event.set()
        self._awaited = None
        self.transport.close()


def _refusal(status: HTTPStatus) -> bytes:
    error = {"code": INVALID_REQUEST, "message": f"{status.phrase}. The connection is closed."}
    body = orjson.dumps({"jsonrpc": "2.0", "id": None, "error": error})
    head = f"HTTP/1.1 {status} {status.phrase}\r\ncontent-type: application/json\r\nconnection: close\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body
