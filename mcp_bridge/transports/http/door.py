"""Admission of requests: counts those in flight, and rejects new ones while the server shuts down."""

from __future__ import annotations

from typing import Any

import anyio
import orjson
from mcp_types import CONNECTION_CLOSED
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_bridge.transports.ends import ENDING, Ledger, goes_on
from mcp_bridge.transports.http.bodies import replay
from mcp_bridge.transports.http.guard import refused

RETRY = {"Retry-After": "1"}
"""Another instance, or this server after its restart, handles the request then."""
_LISTEN = (b"mcp-method", b"subscriptions/listen")
_RESUMES = b"last-event-id"


class Gate:
    """The state of an app: whether it runs, whether it shuts down, and the requests in flight.

    The shutdown waits for those in `ledger`. Listen streams are not in it, because the shutdown ends them.
    """

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.running = False
        self.ending = False
        self.inside: set[anyio.CancelScope] = set()
        self._left: anyio.Event | None = None

    async def emptied(self) -> None:
        """Wait until no request is in flight."""
        while self.inside:
            self._left = anyio.Event()
            await self._left.wait()

    def leave(self, scope: anyio.CancelScope) -> None:
        """Remove a request that is answered."""
        self.inside.discard(scope)
        if not self.inside and self._left is not None:
            self._left.set()

    def cut(self) -> None:
        """Cancel all requests in flight."""
        for scope in list(self.inside):
            scope.cancel()


class Door:
    """ASGI middleware that admits requests while the app runs, and counts them until they are answered.

    During the shutdown it admits only what belongs to calls in flight: answers to questions, notifications, the next
    round of a call that has asked something, resumed streams, and the end of sessions. It always admits messages of
    clients that are `connected` by a stream, because the official client closes its stream, with all calls in flight,
    after the first rejected message.
    """

    def __init__(self, gate: Gate, app: ASGIApp, *, body: int, counted: bool = True, connected: bool = False) -> None:
        self._gate = gate
        self._app = app
        self._body = body
        self._counted = counted
        self._connected = connected

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request on, or reject it."""
        if not self._gate.running:
            refusal = refused(503, "The server is not running. Give the outer app lifespan=app.lifespan.")
            await refusal(scope, receive, send)
            return
        reply = Reply(send)
        with anyio.CancelScope() as inside:
            self._gate.inside.add(inside)
            try:
                if self._gate.ending and not self._connected:
                    await self._while_ending(scope, receive, reply.send)
                else:
                    await self._through(scope, receive, reply.send)
            finally:
                self._gate.leave(inside)
        if inside.cancelled_caught:
            await reply.cut(scope, receive)

    async def _through(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._counted or scope["method"] != "POST" or _LISTEN in scope["headers"]:
            await self._app(scope, receive, send)
            return
        self._gate.ledger.opened()
        try:
            await self._app(scope, receive, send)
        finally:
            await self._gate.ledger.settled()

    async def _while_ending(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            admitted = scope["method"] == "DELETE" or any(name == _RESUMES for name, _ in scope["headers"])
            await (self._through if admitted else _closed(None))(scope, receive, send)
            return
        body = await _whole(receive, self._body)
        message = _parsed(body)
        if body is None or _is_new(message):
            await _closed(message.get("id"))(scope, receive, send)
        else:
            await self._through(scope, replay({"type": "http.request", "body": body}, receive), send)


class Reply:
    """Tracks what was sent of a response, so that one that is cut off can be completed properly."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._started = self._complete = False

    async def send(self, message: Message) -> None:
        """Send a part of the response."""
        if message["type"] == "http.response.start":
            self._started = True
        else:
            self._complete = not message.get("more_body", False)
        await self._send(message)

    async def cut(self, scope: Scope, receive: Receive) -> None:
        """Respond that the server shuts down, or end the stream that has begun."""
        if not self._started:
            await _closed(None)(scope, receive, self._send)
        elif not self._complete:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})


def _closed(number: Any) -> Response:
    error = {"code": CONNECTION_CLOSED, "message": ENDING}
    number = number if isinstance(number, str | int) and not isinstance(number, bool) else None
    return JSONResponse({"jsonrpc": "2.0", "id": number, "error": error}, status_code=503, headers=RETRY)


async def _whole(receive: Receive, most: int) -> bytes | None:
    """Return the whole body; None if it is too long or the client has disconnected."""
    body = bytearray()
    while len(body) <= most:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        if not message.get("more_body", False):
            return bytes(body)
    return None


def _parsed(body: bytes | None) -> dict[str, Any]:
    try:
        message = orjson.loads(body or b"")
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


def _is_new(message: dict[str, Any]) -> bool:
    """Whether a message is a request that does not belong to a call in flight."""
    if "id" not in message or "method" not in message:
        return False
    params = message.get("params")
    return not goes_on(str(message["method"]), params if isinstance(params, dict) else None)
