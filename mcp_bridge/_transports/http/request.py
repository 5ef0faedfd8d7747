"""HttpRequest: one request as an ASGI app sees it, with its headers, its body and its response."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable
from dataclasses import dataclass
from functools import lru_cache

import orjson

from mcp_bridge._contracts.jsonrpc import INVALID_REQUEST
from mcp_bridge._transports.http1.asgi import WHOLE_RESPONSE, Headers, Receive, Scope, Send

JSON = b"application/json"
_JSON_HEADER = (b"content-type", JSON)
_NO_NAMES: frozenset[bytes] = frozenset()
_ZERO_WEIGHT = re.compile(r"q=0(\.0*)?")


class HttpRejection(Exception):
    """A response that ends the handling of a request: a status, and a JSON-RPC error as the body."""

    def __init__(self, status: int, body: bytes, headers: Headers = ()) -> None:
        super().__init__(status)
        self.status = status
        self.body = body
        self.headers = headers


class ClientDisconnected(Exception):
    """The client has disconnected before its request was complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenOwner:
    """The owner of a valid token. `principal` is None for the token without a name."""

    principal: str | None = None
    scopes: frozenset[str] = frozenset()


class HttpRequest:
    """A request and its response.

    Attributes:
        headers: The headers by their names in lower case. Of a repeated header, they have the last value.
        repeated: The names of repeated headers.
        common_headers: Headers added to every response.
        caller: The owner of the token.
        abortion: The response if the server aborts the request.
        is_started: Whether the response has begun.
        is_complete: Whether the response is complete, or the client has disconnected.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.receive = receive
        self._send = send
        self._send_whole = scope.get("extensions", {}).get(WHOLE_RESPONSE)
        self.method: str = scope["method"]
        pairs = scope["headers"]
        self.headers: dict[bytes, bytes] = dict(pairs)
        self.repeated = _NO_NAMES
        if len(self.headers) != len(pairs):
            counts = Counter(name for name, _ in pairs)
            self.repeated = frozenset(name for name, count in counts.items() if count > 1)
            # The lines of a list are one list (RFC 9110, 5.3).
            self.headers[b"accept"] = b",".join(value for name, value in pairs if name == b"accept")
        self.common_headers: Headers = ()
        self.is_started = False
        self.is_complete = False
        self.caller: TokenOwner | None = None
        self.abortion: HttpRejection | None = None

    def get_header(self, name: bytes) -> str | None:
        """Return the value of a header without the blanks around it (RFC 9110, 5.5). httptools does not remove them."""
        value = self.headers.get(name)
        if value is None:
            return None
        return value.strip(b" \t").decode("latin-1")

    def read_principal(self) -> str | None:
        """Return the principal of the token, or else the authenticated user of a surrounding ASGI app.

        Such an app sets `user` in the scope, as Starlette does. If the user has an `access_token`, as the one of the
        SDK's authentication (`mcp.server.auth`) has, its owner is the principal.
        """
        if self.caller is not None and self.caller.principal is not None:
            return self.caller.principal
        user = self.scope.get("user")
        if user is None or not user.is_authenticated:
            return None
        token = getattr(user, "access_token", None)
        if token is None:
            return str(user.display_name)
        return format_principal(token.client_id, (token.claims or {}).get("iss"), token.subject)

    def check_message(self) -> None:
        """Raise HttpRejection unless this is a POST of a message, and the client accepts JSON and event streams."""
        self.check_method("POST")
        self.check_content_type()
        self.check_accept("application/json", "text/event-stream")

    def check_method(self, *allowed: str) -> None:
        """Raise HttpRejection unless the method is one of these."""
        if self.method not in allowed:
            raise make_rejection(405, f"Use {' or '.join(allowed)}.", [(b"allow", ", ".join(allowed).encode())])

    def check_content_type(self) -> None:
        """Raise HttpRejection unless the body is JSON. A web page could send a form without a preflight request."""
        content_type = self.headers.get(b"content-type", b"")
        if content_type != JSON and content_type.partition(b";")[0].strip(b" \t").lower() != JSON:
            raise make_rejection(400, "The Content-Type of a message is application/json.")

    def check_accept(self, *media_types: str) -> None:
        """Raise HttpRejection unless the client accepts these media types."""
        accepted_types = _read_accept(self.headers.get(b"accept", b""))
        if not accepted_types.issuperset(media_types):
            raise make_rejection(406, f"Not Acceptable: the client must accept {' and '.join(media_types)}.")

    async def read_body(self, limit: int) -> bytes:
        """Return the body. Raises HttpRejection if it has more than `limit` bytes, and ClientDisconnected."""
        content_length = self.headers.get(b"content-length", b"0")
        # A longer number is too large in any case, and int() raises ValueError for thousands of digits.
        is_too_large = len(content_length) > 18 or (content_length.isdigit() and int(content_length) > limit)
        parts: list[bytes] = []
        size = 0
        has_more = not is_too_large
        while has_more:
            message = await self.receive()
            if message["type"] != "http.request":
                raise ClientDisconnected
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            has_more = message.get("more_body", False) and size <= limit
        if is_too_large or size > limit:
            hint = "Raise limits.arguments in the settings."
            raise make_rejection(413, f"The body of a request may have {limit} bytes. {hint}")
        return b"".join(parts)

    def respond(self, status: int, body: bytes = b"", headers: Headers = ()) -> Awaitable[None]:
        """Send the whole response. The body is JSON."""
        return self.send_response(status, (*headers, _JSON_HEADER) if body else headers, body)

    async def reject(self, rejection: HttpRejection) -> None:
        """Send a rejection as the response, or end the response if it has begun."""
        if not self.is_started:
            await self.respond(rejection.status, rejection.body, rejection.headers)
        elif not self.is_complete:
            await self.send_body(b"", more=False)

    async def send_response(self, status: int, headers: Headers, body: bytes, *, more: bool = False) -> None:
        """Send the head of the response, with its body or the first part of the body."""
        fields = (*headers, *self.common_headers)
        self.is_started = True
        self.is_complete = not more
        if self._send_whole is not None and not more:
            await self._send_whole(status, fields, body)
            return
        if not more:
            fields = ((b"content-length", b"%d" % len(body)), *fields)
        await self._send({"type": "http.response.start", "status": status, "headers": fields})
        await self._send({"type": "http.response.body", "body": body, "more_body": more})

    async def send_body(self, data: bytes, *, more: bool) -> None:
        self.is_complete = not more
        await self._send({"type": "http.response.body", "body": data, "more_body": more})


def make_rejection(status: int, message: str, headers: Headers = (), *, code: int = INVALID_REQUEST) -> HttpRejection:
    """Return a rejection with a JSON-RPC error. The error has no id, because the body may not have been read."""
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
    return HttpRejection(status, orjson.dumps(body), headers)


@lru_cache(maxsize=64)
def _read_accept(value: bytes) -> frozenset[str]:
    """Return the media types of MCP in an Accept header (RFC 9110, 12.5.1)."""
    is_accepted: dict[str, bool] = {}
    for media_range in value.decode("latin-1").lower().split(","):
        name, *parameters = map(str.strip, media_range.split(";"))
        is_accepted[name] = not any(map(_ZERO_WEIGHT.fullmatch, parameters))
    accepted_types = set()
    for name, family in (("application/json", "application/*"), ("text/event-stream", "text/*")):
        # The most specific of the ranges decides (RFC 9110, 12.5.1).
        for media_range in (name, family, "*/*"):
            if media_range in is_accepted:
                if is_accepted[media_range]:
                    accepted_types.add(name)
                break
    return frozenset(accepted_types)


def format_principal(client: str | None, issuer: str | None, subject: str | None) -> str:
    """Return the principal of an OAuth token: its client, its issuer and its subject, as JSON."""
    return orjson.dumps([client, issuer, subject]).decode()


def make_client_key(principal: str | None, session: str = "") -> str:
    """Return the key of a client for its quotas: its principal, or else its session.

    Without both, it is the same for all anonymous clients.
    """
    return f"session/{session}" if principal is None else f"principal/{principal}"
