"""The legacy HTTP+SSE transport (MCP 2024-11-05): a stream for each client at /sse, its messages at /messages."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Self

import anyio
import mcp_types as types
from mcp.server.sse import SseServerTransport
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from mcp_bridge.server.endpoint import Endpoint
from mcp_bridge.transports.http.access import make_rejection
from mcp_bridge.transports.shutdown import RequestCounter

MESSAGES_PATH = "/messages"


class SseEndpoint:
    """ASGI endpoint of the streams, at most `most` of them; `messages` is the endpoint of the messages.

    `ledger` counts the requests in flight.
    """

    def __init__(self, endpoint: Endpoint, ledger: RequestCounter, *, body: int, most: int) -> None:
        self._endpoint = endpoint
        self._ledger = ledger
        self._free = most
        self._reading: set[CountingReader] = set()
        self._transport = SseServerTransport(MESSAGES_PATH, max_request_body_size=body)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "GET":
            await make_rejection(405, "Open the stream with GET.", {"Allow": "GET"})(scope, receive, send)
        elif not self._free:
            full = "Too many open streams. Close one, or raise http.sessions in the settings."
            await make_rejection(503, full)(scope, receive, send)
        else:
            self._free -= 1
            try:
                await self._serve_stream(scope, receive, send)
            finally:
                self._free += 1

    async def messages(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Accept one message."""
        gone = (anyio.BrokenResourceError, anyio.ClosedResourceError, ClientDisconnect)
        with suppress(*gone):  # its stream has just ended, or the client has disconnected
            await self._transport.handle_post_message(scope, receive, send)

    def end_streams(self) -> None:
        """End every stream after the messages that were sent on it."""
        for incoming in list(self._reading):
            incoming.stop()

    async def _serve_stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        kernel = self._endpoint.kernel
        requests = ClientRequests(self._ledger)
        try:
            async with self._transport.connect_sse(scope, receive, send) as (source, sink):
                incoming = CountingReader(source, requests)
                outgoing = SettlingWriter(sink, requests)
                self._reading.add(incoming)
                try:
                    await kernel.run(incoming, outgoing, kernel.create_initialization_options())
                finally:
                    self._reading.discard(incoming)
        finally:
            await requests.remove_all()


class ClientRequests:
    """The requests of one client that the ledger counts. The shutdown does not wait for a client that has left."""

    def __init__(self, ledger: RequestCounter) -> None:
        self._ledger = ledger
        self._open = 0

    def add_request(self) -> None:
        self._open += 1
        self._ledger.add_request()

    async def remove_request(self) -> None:
        """Count a response; async for the SDK, as in the ledger."""
        if self._open:
            self._open -= 1
            await self._ledger.remove_request()

    async def remove_all(self) -> None:
        while self._open:
            await self.remove_request()


class StreamWrapper:
    """The base of wrappers around the SDK's streams."""

    def __init__(self, stream: Any, requests: ClientRequests) -> None:
        self._stream = stream
        self._requests = requests

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        await self._stream.__aexit__(*exc_info)

    async def aclose(self) -> None:
        await self._stream.aclose()


class CountingReader(StreamWrapper):
    """The read side: every request is counted until it is answered or cancelled."""

    def __init__(self, stream: Any, requests: ClientRequests) -> None:
        super().__init__(stream, requests)
        self._waiting: anyio.CancelScope | None = None
        self._ended = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message. Raises EndOfStream when the client has disconnected or the server shuts down."""
        try:
            with anyio.CancelScope() as self._waiting:
                if not self._ended:
                    return self._count_request(await self._stream.receive())
        except anyio.EndOfStream:
            await self._requests.remove_all()  # at once: cancelling the calls in flight may take long
            raise
        raise anyio.EndOfStream

    def stop(self) -> None:
        """Accept no more messages, as if the client had disconnected."""
        self._ended = True
        if self._waiting is not None:
            self._waiting.cancel()

    @property
    def last_context(self) -> Any:
        return self._stream.last_context

    def _count_request(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        if isinstance(item, SessionMessage) and isinstance(item.message, types.JSONRPCRequest):
            self._requests.add_request()
            if isinstance(item.metadata, ServerMessageMetadata):
                item.metadata.on_request_unanswered = self._requests.remove_request
        return item


class SettlingWriter(StreamWrapper):
    """The write side: a response ends the count of its request."""

    async def send(self, item: SessionMessage, /) -> None:
        await self._stream.send(item)
        if isinstance(item.message, types.JSONRPCResponse | types.JSONRPCError):
            await self._requests.remove_request()
