"""The door to what is served: who is let in, now and while the bridge ends; what is behind it is counted and ended."""

from __future__ import annotations

from typing import Any

import anyio
import orjson
from mcp_types import CONNECTION_CLOSED
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_bridge.transports.ends import ENDING, Ledger, goes_on
from mcp_bridge.transports.http.guard import refused

RETRY = {"Retry-After": "1"}
"""Where the bridge is one of several, or started again, the next one takes the request."""
_LISTEN = (b"mcp-method", b"subscriptions/listen")
_RESUMES = b"last-event-id"


class Gate:
    """Whether the bridge runs, whether it is ending, and what is being answered. `ledger` has what the end waits for.

    Listen streams are not in the ledger: the bridge ends them itself.
    """

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.running = False
        self.ending = False
        self.inside: set[anyio.CancelScope] = set()
        self._left: anyio.Event | None = None

    async def emptied(self) -> None:
        """Wait until nothing is being answered."""
        while self.inside:
            self._left = anyio.Event()
            await self._left.wait()

    def leave(self, scope: anyio.CancelScope) -> None:
        """One is answered."""
        self.inside.discard(scope)
        if not self.inside and self._left is not None:
            self._left.set()

    def cut(self) -> None:
        """End everything that is still being answered."""
        for scope in list(self.inside):
            scope.cancel()


class Door:
    """An ASGI endpoint that is open while the bridge runs. Requests behind it are counted until answered.

    While it ends, only what belongs to work in flight is let in: answers to questions, notifications, the next round
    of a call that has asked, streams that are resumed, goodbyes. Clients that are `connected` by a stream are heard
    in any case: the official one gives that up, with all its calls in flight, at the first message that is refused.
    """

    def __init__(self, gate: Gate, app: ASGIApp, *, body: int, counted: bool = True, connected: bool = False) -> None:
        self._gate = gate
        self._app = app
        self._body = body
        self._counted = counted
        self._connected = connected

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request through, or refuse it."""
        if not self._gate.running:
            refusal = refused(503, "The bridge is not running: give the outer app lifespan=app.lifespan.")
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
            told = scope["method"] == "DELETE" or any(name == _RESUMES for name, _ in scope["headers"])
            await (self._through if told else _closed(None))(scope, receive, send)
            return
        body = await _whole(receive, self._body)
        message = _parsed(body)
        if body is None or _is_new(message):
            await _closed(message.get("id"))(scope, receive, send)
        else:
            await self._through(scope, _again(body, receive), send)


class Reply:
    """What was sent of an answer, so that one that is cut off can be ended properly."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._started = self._complete = False

    async def send(self, message: Message) -> None:
        """Send a part of it."""
        if message["type"] == "http.response.start":
            self._started = True
        else:
            self._complete = not message.get("more_body", False)
        await self._send(message)

    async def cut(self, scope: Scope, receive: Receive) -> None:
        """Say that there is no answer, or end the stream that has begun."""
        if not self._started:
            await _closed(None)(scope, receive, self._send)
        elif not self._complete:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})


def _closed(number: Any) -> Response:
    error = {"code": CONNECTION_CLOSED, "message": ENDING}
    number = number if isinstance(number, str | int) and not isinstance(number, bool) else None
    return JSONResponse({"jsonrpc": "2.0", "id": number, "error": error}, status_code=503, headers=RETRY)


async def _whole(receive: Receive, most: int) -> bytes | None:
    """The whole body, unless it is too long or its client has left."""
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
    """Whether it is a request that begins something."""
    if "id" not in message or "method" not in message:
        return False
    params = message.get("params")
    return not goes_on(str(message["method"]), params if isinstance(params, dict) else None)


def _again(body: bytes, receive: Receive) -> Receive:
    """`receive` as it was before the body was read."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay
