"""Admission of requests: counts those in flight, and rejects new ones while the server shuts down."""

from __future__ import annotations

from typing import Any

import anyio
import orjson
from mcp_types import CONNECTION_CLOSED
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_bridge.transports.http.access import make_rejection
from mcp_bridge.transports.http.body_validation import replay
from mcp_bridge.transports.shutdown import SHUTDOWN_MESSAGE, RequestCounter, is_part_of_call

RETRY_HEADERS = {"Retry-After": "1"}
"""Another instance, or this server after its restart, handles the request then."""
_LISTEN = (b"mcp-method", b"subscriptions/listen")
_LAST_EVENT_ID = b"last-event-id"


class AdmissionState:
    """The state of an app: whether it runs, whether it shuts down, and the requests in flight.

    The shutdown waits for those in `ledger`. Listen streams are not in it, because the shutdown ends them.
    """

    def __init__(self) -> None:
        self.ledger = RequestCounter()
        self.running = False
        self.ending = False
        self.inside: set[anyio.CancelScope] = set()
        self._left: anyio.Event | None = None

    async def wait_until_empty(self) -> None:
        while self.inside:
            self._left = anyio.Event()
            await self._left.wait()

    def remove_scope(self, scope: anyio.CancelScope) -> None:
        self.inside.discard(scope)
        if not self.inside and self._left is not None:
            self._left.set()

    def cancel_all(self) -> None:
        for scope in list(self.inside):
            scope.cancel()


class AdmissionMiddleware:
    """ASGI middleware that admits requests while the app runs, and counts them until they are answered.

    During the shutdown it admits only what belongs to calls in flight: answers to questions, notifications, the next
    round of a call that has asked something, resumed streams, and the end of sessions. It always admits messages of
    clients that are `connected` by a stream, because the official client closes its stream, with all calls in flight,
    after the first rejected message.
    """

    def __init__(
        self, gate: AdmissionState, app: ASGIApp, *, body: int, counted: bool = True, connected: bool = False
    ) -> None:
        self._gate = gate
        self._app = app
        self._body = body
        self._counted = counted
        self._connected = connected

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._gate.running:
            refusal = make_rejection(503, "The server is not running. Give the outer app lifespan=app.lifespan.")
            await refusal(scope, receive, send)
            return
        reply = ResponseTracker(send)
        with anyio.CancelScope() as inside:
            self._gate.inside.add(inside)
            try:
                if self._gate.ending and not self._connected:
                    await self._handle_during_shutdown(scope, receive, reply.send)
                else:
                    await self._forward_request(scope, receive, reply.send)
            finally:
                self._gate.remove_scope(inside)
        if inside.cancelled_caught:
            await reply.complete_response(scope, receive)

    async def _forward_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._counted or scope["method"] != "POST" or _LISTEN in scope["headers"]:
            await self._app(scope, receive, send)
            return
        self._gate.ledger.add_request()
        try:
            await self._app(scope, receive, send)
        finally:
            await self._gate.ledger.remove_request()

    async def _handle_during_shutdown(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            admitted = scope["method"] == "DELETE" or any(name == _LAST_EVENT_ID for name, _ in scope["headers"])
            await (self._forward_request if admitted else _make_shutdown_response(None))(scope, receive, send)
            return
        body = await _read_body(receive, self._body)
        message = _parse_object(body)
        if body is None or _is_new_request(message):
            await _make_shutdown_response(message.get("id"))(scope, receive, send)
        else:
            await self._forward_request(scope, replay({"type": "http.request", "body": body}, receive), send)


class ResponseTracker:
    """Tracks what was sent of a response, so that one that is cut off can be completed properly."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._started = self._complete = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._started = True
        else:
            self._complete = not message.get("more_body", False)
        await self._send(message)

    async def complete_response(self, scope: Scope, receive: Receive) -> None:
        if not self._started:
            await _make_shutdown_response(None)(scope, receive, self._send)
        elif not self._complete:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})


def _make_shutdown_response(number: Any) -> Response:
    error = {"code": CONNECTION_CLOSED, "message": SHUTDOWN_MESSAGE}
    number = number if isinstance(number, str | int) and not isinstance(number, bool) else None
    return JSONResponse({"jsonrpc": "2.0", "id": number, "error": error}, status_code=503, headers=RETRY_HEADERS)


async def _read_body(receive: Receive, most: int) -> bytes | None:
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


def _parse_object(body: bytes | None) -> dict[str, Any]:
    try:
        message = orjson.loads(body or b"")
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


def _is_new_request(message: dict[str, Any]) -> bool:
    if "id" not in message or "method" not in message:
        return False
    params = message.get("params")
    return not is_part_of_call(str(message["method"]), params if isinstance(params, dict) else None)
