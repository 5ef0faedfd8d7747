"""Rejects the bodies that stdio rejects as lines, with the same errors, before the SDK reads them.

The SDK's two parsers accept NaN and duplicate names, and respond in three different ways without the id.
"""

from __future__ import annotations

import mcp_types as types
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_bridge.transports.jsonrpc_lines import format_invalid, parse_message

_SESSION = b"mcp-session-id"


class BodyMiddleware:
    """ASGI middleware that parses the message in a body. The size of the body has been checked before.

    It rejects a request whose id is in flight in the same session: the SDK would respond to the later one only.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._open: dict[tuple[bytes, str], Scope] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        first = await receive()
        if first["type"] != "http.request" or first.get("more_body"):
            return  # the client has disconnected, perhaps in the middle of the body
        message = parse_message(first.get("body", b""))
        if isinstance(message, bytes):
            await _make_error_response(message)(scope, receive, send)
            return
        session = dict(scope["headers"]).get(_SESSION)
        if session is None or not isinstance(message, types.JSONRPCRequest):
            await self._app(scope, replay(first, receive), send)
            return
        key = (session, str(message.id))  # as the SDK stores them: 1 and "1" are the same
        if key in self._open:
            problem = format_invalid(message.id, "a request with this id is in flight")
            await _make_error_response(problem)(scope, receive, send)
            return
        self._open[key] = scope
        try:
            await self._app(scope, replay(first, receive), self._make_releasing_send(key, scope, send))
        finally:
            self._release_id(key, scope)

    def _release_id(self, key: tuple[bytes, str], scope: Scope) -> None:
        if self._open.get(key) is scope:
            del self._open[key]

    def _make_releasing_send(self, key: tuple[bytes, str], scope: Scope, send: Send) -> Send:
        """Return a `send` that frees the id before the end of the response: then the client may use it again."""

        async def send_and_free(message: Message) -> None:
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                self._release_id(key, scope)
            await send(message)

        return send_and_free


def _make_error_response(line: bytes) -> Response:
    return Response(line, status_code=400, media_type="application/json")


def replay(first: Message, receive: Receive) -> Receive:
    """Return a `receive` that returns a message again before those that follow."""
    waiting = [first]

    async def receive_again() -> Message:
        return waiting.pop() if waiting else await receive()

    return receive_again
