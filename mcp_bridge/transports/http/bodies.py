"""Bodies: what stdio refuses as a line is refused as a body, with the same error, before the SDK reads it.

The SDK's two readers take NaN and names that stand twice, and answer in three ways without the id.
"""

from __future__ import annotations

import mcp_types as types
from mcp_types import INVALID_REQUEST
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_bridge.transports.frames import error, parse

_SESSION = b"mcp-session-id"


class Bodies:
    """ASGI middleware around what reads messages; the size of a body is checked before it.

    In one session an id is free again once its request is answered: the SDK would answer the later one alone.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._open: dict[tuple[bytes, str], Scope] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer what is wrong with its body."""
        if scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        first = await receive()
        if first["type"] != "http.request" or first.get("more_body"):
            return  # the client has left, perhaps in the middle
        message = parse(first.get("body", b""))
        if isinstance(message, bytes):
            await _refused(message)(scope, receive, send)
            return
        session = dict(scope["headers"]).get(_SESSION)
        if session is None or not isinstance(message, types.JSONRPCRequest):
            await self._app(scope, _again(first, receive), send)
            return
        key = (session, str(message.id))  # as the SDK keeps them: 1 and "1" are one
        if key in self._open:
            taken = error(message.id, INVALID_REQUEST, "Invalid Request: a request with this id is in flight")
            await _refused(taken)(scope, receive, send)
            return
        self._open[key] = scope
        try:
            await self._app(scope, _again(first, receive), self._freeing(key, scope, send))
        finally:
            self._free(key, scope)

    def _free(self, key: tuple[bytes, str], scope: Scope) -> None:
        if self._open.get(key) is scope:
            del self._open[key]

    def _freeing(self, key: tuple[bytes, str], scope: Scope, send: Send) -> Send:
        """`send` that frees an id with the end of the answer, so that a client that has it all may use it again."""

        async def freeing(message: Message) -> None:
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                self._free(key, scope)
            await send(message)

        return freeing


def _refused(line: bytes) -> Response:
    return Response(line, status_code=400, media_type="application/json")


def _again(first: Message, receive: Receive) -> Receive:
    """`receive` as it was before the first message was read."""
    waiting = [first]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay
