"""A client of the operator API, over a server's port or its private socket.

The commands `top`, `approvals` and `shared` use it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import httpx2

from mcp_bridge._contracts.errors import BridgeError
from mcp_bridge._runtime.exact_json import load_json
from mcp_bridge._runtime.http_client.requests import is_header_value

TIMEOUT = httpx2.Timeout(10, read=40)
"""The event stream is broken if nothing arrives for 40 seconds, because the server sends a comment every 15 seconds."""
RETRY_INTERVAL = 1.0
"""Seconds before a broken stream is resumed."""
MAX_EVENT = 1024 * 1024
"""The maximum number of characters of an event."""


class OperatorError(BridgeError):
    """The operator API cannot be used. `status` is that of the response, or None without one."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class OperatorEvent(NamedTuple):
    """An event of the stream. The client adds the events `lost` and `connected`."""

    name: str
    data: Mapping[str, Any]


class OperatorClient:
    """Reads the state and the events of a server, and answers its questions.

    `base` is the URL of the server, without `/mcp`, and `socket` its private socket, which needs no token. Raises
    OperatorError for a token that no HTTP header can have.
    """

    def __init__(self, base: str = "http://localhost", token: str | None = None, *, socket: Path | None = None) -> None:
        # The HTTP client would reject it too, but with an error that contains the token.
        if token and not is_header_value(token):
            problem = "the token has characters that no HTTP header can have"
            raise OperatorError(f"{problem}. Check it for line breaks, and for spaces at its ends")
        self._base = base.rstrip("/")
        self._name = str(socket or self._base)
        self._socket = socket
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._last_event_id = ""

    async def read_server(self) -> dict[str, Any]:
        """Return the summary of the server. Raises OperatorError."""
        return await self._request("GET", "/page/server", "pid")

    async def read_state(self) -> dict[str, Any]:
        """Return the state. Raises OperatorError."""
        return await self._request("GET", "/page/state", "server")

    async def answer_approval(self, number: int, choice: str) -> None:
        """Answer a question for approval. Raises OperatorError."""
        await self._request("POST", f"/page/questions/{number}", "answered", {"choice": choice})

    async def follow_events(self, *, is_observer: bool = False) -> AsyncIterator[OperatorEvent]:
        """Yield the events, and resume the stream when it breaks. Raises OperatorError if the server rejects it.

        An observer does not answer questions, so the server lets no question wait for it.
        """
        path = "/page/events?role=observer" if is_observer else "/page/events"
        async with self._make_http_client() as http:
            while True:
                try:
                    headers = {"Last-Event-ID": self._last_event_id} if self._last_event_id else {}
                    async with http.stream("GET", self._base + path, headers=headers) as response:
                        await self._check_response(response)
                        yield OperatorEvent("connected", {})
                        async for event in self._read_events(response):
                            yield event
                    problem = "the server has closed the stream"
                except httpx2.HTTPError as error:
                    problem = _describe_failure(error)
                yield OperatorEvent("lost", {"problem": problem})
                await anyio.sleep(RETRY_INTERVAL)

    async def _request(self, method: str, path: str, key: str, body: Any = None) -> dict[str, Any]:
        """Return the object in the response, which must have `key`. Raises OperatorError."""
        async with self._make_http_client() as http:
            try:
                response = await http.request(method, self._base + path, json=body)
            except httpx2.HTTPError as error:
                raise OperatorError(f"{self._name} cannot be reached: {_describe_failure(error)}") from None
            await self._check_response(response)
        try:
            data = load_json(response.content)
        except ValueError:
            data = None
        if not isinstance(data, dict) or key not in data:
            raise OperatorError(f"{self._name} is not a server with a page: its response has no `{key}`")
        return data

    def _make_http_client(self) -> httpx2.AsyncClient:
        transport = None
        if self._socket is not None:
            from mcp_bridge._runtime.http_client.local_transport import make_local_transport

            transport = make_local_transport(self._socket)
        return httpx2.AsyncClient(headers=self._headers, timeout=TIMEOUT, transport=transport)

    async def _read_events(self, response: httpx2.Response) -> AsyncIterator[OperatorEvent]:
        """Yield the events of one connection (HTML Standard, "Server-sent events")."""
        fields: dict[str, str] = {}
        async for line in response.aiter_lines():
            name, _, value = line.partition(":")
            if name in ("id", "event", "data"):
                fields[name] = value.removeprefix(" ")
            elif not line and "data" in fields:
                self._last_event_id = fields.get("id", self._last_event_id)
                if len(fields["data"]) <= MAX_EVENT:
                    yield OperatorEvent(fields.get("event", "message"), load_json(fields["data"]))
                fields = {}

    async def _check_response(self, response: httpx2.Response) -> None:
        status, name = response.status_code, self._name
        if status == 200:
            return
        body = await response.aread()
        if status == 401:
            hint = "or the address of the page that `mcp-bridge dev` reports, in quotes"
            raise OperatorError(f"{name} needs a valid token. Pass its URL and --token-env NAME, {hint}", status)
        try:
            reason = load_json(body)["error"]["message"]
        except (ValueError, TypeError, LookupError):
            reason = "it gives no reason"
        if status == 404 and self._socket is None:
            hint = "Set `http.page: true` in its settings, or start it with `mcp-bridge dev`"
            raise OperatorError(f"{name} has no page. {hint}", status)
        raise OperatorError(f"{name} has rejected the request with status {status}: {reason}", status)


def _describe_failure(error: Exception) -> str:
    return str(error) or type(error).__name__
