"""Unix sockets between running servers and `mcp-bridge approvals`: a folder per settings file, a socket per server."""

from __future__ import annotations

import json
import socket
from typing import Any

import anyio
from anyio.abc import SocketAttribute, SocketStream

from mcp_bridge._runtime.unix_sockets import is_same_user

Json = dict[str, Any]
SUFFIX = ".sock"
MAX_MESSAGE = 256 * 1024
"""The maximum number of bytes of one message."""
SEND_TIMEOUT = 5.0
"""Seconds in which the other end must read a message."""
CONNECTION_ERRORS = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)
"""Raised when the connection is lost."""


class JsonConnection:
    """One connection, with a line of JSON for each message.

    It reads the socket itself: cancelling anyio's stream while data arrives causes an error in the event loop.
    """

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._socket: socket.socket = stream.extra(SocketAttribute.raw_socket)  # noqa: S610 - no database
        self._buffer = b""

    @property
    def is_same_user(self) -> bool:
        """Whether the other end is a process of this user or of root; true if the system does not provide that."""
        return is_same_user(self._socket)

    async def __aenter__(self) -> JsonConnection:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stream.aclose()

    async def send(self, message: Json) -> None:
        """Send one message. Raises one of `CONNECTION_ERRORS`, such as TimeoutError if the other end does not read."""
        data = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        with anyio.fail_after(SEND_TIMEOUT):
            while data:
                try:
                    data = data[self._socket.send(data) :]
                except BlockingIOError:
                    await anyio.wait_writable(self._socket)

    async def receive(self) -> Json:
        """Receive the next message. Raises one of `CONNECTION_ERRORS`, and ValueError for an invalid line."""
        while b"\n" not in self._buffer:
            if len(self._buffer) > MAX_MESSAGE:
                raise ValueError(f"a message is longer than {MAX_MESSAGE} bytes")
            await self._receive_data()
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            message = json.loads(line)
        except RecursionError:
            raise ValueError("a message is nested too deeply") from None
        if not isinstance(message, dict):
            raise ValueError("a message is an object")  # noqa: TRY004 - one type for every invalid line
        return message

    async def _receive_data(self) -> None:
        while True:
            try:
                data = self._socket.recv(65536)
                break
            except BlockingIOError:
                await anyio.wait_readable(self._socket)
        if not data:
            raise anyio.EndOfStream
        self._buffer += data
