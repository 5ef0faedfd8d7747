"""Carries one request of a client to its server: a tunnel for CONNECT, or a request with an absolute URL.

A request with an absolute URL is parsed and written anew, as is its response. So both sides read the same message.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

import h11

from mcp_bridge._runtime.egress.hosts import HostPort, parse_target

BUFFER = 64 * 1024
"""The number of bytes that are read at once. Each direction of a connection buffers a few times as many."""
MAX_HEAD = 64 * 1024
"""The maximum number of bytes of the head of a request or response."""
IDLE_TIMEOUT = 600.0
"""Seconds after which a connection ends if neither side has sent or read anything."""
LINGER_TIMEOUT = 1.0
"""Seconds in which a client can read an error while it still sends its request."""
HTTP_PORT = 80
_CONNECTION_HEADERS = frozenset({b"connection", b"keep-alive", b"te", b"trailer", b"upgrade"})
"""Headers that apply to one connection only (RFC 9110, section 7.6.1). So do those whose names begin with `proxy-`."""
_URL = re.compile(rb"http://([^/?#@]*)([/?][^#]*)?", re.IGNORECASE)
_USAGE = "this proxy accepts CONNECT with a host and port, and http URLs without a user"


class EgressRejected(Exception):
    """A request fails with this HTTP status and reason.

    Many clients show only the reason. The text of the response adds the hint, for models and authors of tools.
    """

    def __init__(self, status: int, reason: str, hint: str = "") -> None:
        super().__init__(f"{reason}. {hint}".strip())
        self.status = status
        self.reason = reason


class HttpPeer:
    """The client or server of an exchange. Both share `deadline`, which every read or write extends."""

    def __init__(
        self,
        role: type[h11.CLIENT | h11.SERVER],
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        deadline: asyncio.Timeout,
    ) -> None:
        self.connection = h11.Connection(role, max_incomplete_event_size=MAX_HEAD)
        self._reader, self._writer = streams
        self._deadline = deadline
        self._has_ended = False

    async def receive_bytes(self) -> bytes:
        """Return the next bytes, or none at the end."""
        data = await self._reader.read(BUFFER)
        self._extend_deadline()
        return data

    async def send_bytes(self, data: bytes) -> None:
        """Write bytes, and wait until few bytes are buffered. Raises OSError, also after `end_output`."""
        if self._has_ended:
            raise BrokenPipeError
        self._writer.write(data)
        await self._writer.drain()
        self._extend_deadline()

    async def receive_event(self) -> h11.Event:
        """Return the next event of HTTP. Raises h11.RemoteProtocolError."""
        while True:
            event = self.connection.next_event()
            if isinstance(event, h11.Event):
                return event
            self.connection.receive_data(await self.receive_bytes())

    async def send_event(self, event: h11.Event) -> None:
        """Send an event of HTTP."""
        await self.send_bytes(self.connection.send(event) or b"")

    async def copy_to(self, other: HttpPeer) -> None:
        """Copy bytes until the end of this side."""
        while data := await self.receive_bytes():
            await other.send_bytes(data)
        other.end_output()

    def end_output(self) -> None:
        """Send the end of the stream, after everything that was written."""
        self._has_ended = True
        self._writer.write_eof()

    def close(self) -> None:
        """Close the connection, after sending everything that was written."""
        self._writer.close()

    async def send_error(self, error: EgressRejected) -> None:
        """Send the response for an error, and wait a moment, because a reset of the connection could discard it."""
        text = f"{error}\n".encode()
        headers = [("Content-Type", "text/plain"), ("Content-Length", str(len(text))), ("Connection", "close")]
        await self.send_event(h11.Response(status_code=error.status, headers=headers, reason=error.reason.encode()))
        await self.send_event(h11.Data(data=text))
        self.end_output()
        async with asyncio.timeout(LINGER_TIMEOUT):
            while await self.receive_bytes():
                pass

    def _extend_deadline(self) -> None:
        if not self._deadline.expired():
            self._deadline.reschedule(asyncio.get_running_loop().time() + IDLE_TIMEOUT)


def read_connect_target(request: h11.Request) -> HostPort:
    """Return the target of a CONNECT request. Raises EgressRejected."""
    has_body = any(name in (b"content-length", b"transfer-encoding") for name, _ in request.headers)
    try:
        if not has_body:
            return parse_target(request.target.decode())
    except ValueError:
        pass
    raise EgressRejected(400, _USAGE)


def read_url(request: h11.Request) -> tuple[HostPort, bytes]:
    """Return the target of a request with an absolute URL, and the path with the query. Raises EgressRejected."""
    match = _URL.fullmatch(request.target)
    hosts = [value for name, value in request.headers if name == b"host"]
    try:
        if match is None:
            raise ValueError("not a URL")
        target = parse_target(match[1].decode(), HTTP_PORT)
        has_other_host = any(parse_target(host.decode(), HTTP_PORT) != target for host in hosts)
    except ValueError:
        raise EgressRejected(400, _USAGE) from None
    if has_other_host:
        raise EgressRejected(400, "the header Host differs from the host of the URL")
    path = match[2] or b"/"
    return target, path if path.startswith(b"/") else b"/" + path


async def forward_request(
    client: HttpPeer, server: HttpPeer, request: h11.Request, target: HostPort, path: bytes
) -> None:
    """Send a request to the server, and its response to the client. Raises EgressRejected for an invalid response."""
    host = str(target).removesuffix(f":{HTTP_PORT}")
    headers = [(b"Host", host.encode()), (b"Connection", b"close"), *_select_headers(request.headers, b"host")]
    await server.send_event(h11.Request(method=request.method, target=path, headers=headers))
    body = asyncio.create_task(_send_body(client, server))
    try:
        await _send_response(client, server)
    except h11.RemoteProtocolError:
        raise EgressRejected(502, f"{target} sends no valid response") from None
    finally:
        body.cancel()
        await asyncio.wait([body])


async def _send_body(client: HttpPeer, server: HttpPeer) -> None:
    """Send the body of a request. If the client does not complete it, the connection to the server is closed."""
    try:
        while isinstance(event := await client.receive_event(), h11.Data):
            await server.send_event(event)
        await server.send_event(h11.EndOfMessage())
    except (OSError, h11.ProtocolError):
        server.close()


async def _send_response(client: HttpPeer, server: HttpPeer) -> None:
    while True:
        event = await server.receive_event()
        if isinstance(event, h11.Response):
            headers = [(b"Connection", b"close"), *_select_headers(event.headers)]
            event = h11.Response(status_code=event.status_code, headers=headers, reason=event.reason)
        elif isinstance(event, h11.EndOfMessage):
            await client.send_event(h11.EndOfMessage())
            return
        await client.send_event(event)


def _select_headers(headers: Sequence[tuple[bytes, bytes]], *others: bytes) -> list[tuple[bytes, bytes]]:
    """Return the headers to forward, all but those of the connection and `others`."""
    removed = {*_CONNECTION_HEADERS, *others}
    for name, value in headers:
        if name == b"connection":
            removed.update(option.strip().lower() for option in value.split(b","))
        elif name == b"transfer-encoding":
            # In a message with both headers, Transfer-Encoding takes precedence (RFC 9112, section 6.3).
            removed.add(b"content-length")
    return [(name, value) for name, value in headers if name not in removed and not name.startswith(b"proxy-")]
