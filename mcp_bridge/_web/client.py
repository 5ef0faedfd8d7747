"""A client of the page's API, for programs that show a server's calls, such as `mcp-bridge top`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple, NoReturn

import anyio
import httpx2

from mcp_bridge._contracts.errors import BridgeError
from mcp_bridge._runtime.exact_json import load_json

TIMEOUT = httpx2.Timeout(10, read=40)  # the server sends a comment every 15 seconds
RETRY_INTERVAL = 1.0
"""Seconds before a broken stream is resumed."""
EVENTS = "/page/events?role=observer"
MAX_EVENT = 1024 * 1024
"""The maximum number of characters of an event."""


class PageError(BridgeError):
    """The page's API cannot be used."""


class PageEvent(NamedTuple):
    """An event of the stream. `lost` and `connected` are added by the client."""

    name: str
    data: Mapping[str, Any]


class PageClient:
    """Reads the state and the events of a server. `base` is the URL of the server, without `/mcp`.

    Raises PageError for a token that no HTTP header can have.
    """

    def __init__(self, base: str, token: str | None = None) -> None:
        if token and not (token.isascii() and token.isprintable()):  # httpx would show it in its error
            raise PageError("the token has characters that no HTTP header can have. Check it for line breaks")
        self._base = base.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._last = ""

    async def read_state(self) -> dict[str, Any]:
        """Return the state. Raises PageError."""
        async with httpx2.AsyncClient(headers=self._headers, timeout=TIMEOUT) as http:
            try:
                response = await http.get(f"{self._base}/page/state")
            except httpx2.HTTPError as error:
                raise PageError(f"{self._base} cannot be reached: {_describe_failure(error)}") from None
            await self._check_response(response)
            try:
                state = load_json(response.content)
            except ValueError:
                state = None
            if not isinstance(state, dict) or "server" not in state:
                raise PageError(f"{self._base} is not a server with a page: its response is not a state")
            return state

    async def follow_events(self) -> AsyncIterator[PageEvent]:
        """Yield the events, and resume the stream when it breaks. Raises PageError if the server rejects it."""
        async with httpx2.AsyncClient(headers=self._headers, timeout=TIMEOUT) as http:
            while True:
                try:
                    headers = {"Last-Event-ID": self._last} if self._last else {}
                    async with http.stream("GET", self._base + EVENTS, headers=headers) as response:
                        await self._check_response(response)
                        yield PageEvent("connected", {})
                        async for event in self._read_events(response):
                            yield event
                    problem = "the server has closed the stream"
                except httpx2.HTTPError as error:
                    problem = _describe_failure(error)
                yield PageEvent("lost", {"problem": problem})
                await anyio.sleep(RETRY_INTERVAL)

    async def _read_events(self, response: httpx2.Response) -> AsyncIterator[PageEvent]:
        """Yield the events of one connection (HTML Standard, "Server-sent events")."""
        fields: dict[str, str] = {}
        async for line in response.aiter_lines():
            name, _, value = line.partition(":")
            if name in ("id", "event", "data"):
                fields[name] = value.removeprefix(" ")
            elif not line and "data" in fields:
                self._last = fields.get("id", self._last)
                if len(fields["data"]) <= MAX_EVENT:
                    yield PageEvent(fields.get("event", "message"), load_json(fields["data"]))
                fields = {}

    async def _check_response(self, response: httpx2.Response) -> None:
        if response.status_code != 200:
            _raise_rejection(self._base, response.status_code, await response.aread())


def _raise_rejection(base: str, status: int, body: bytes) -> NoReturn:
    if status == 401:
        hint = "Pass its URL and --token-env NAME, or the address of the page that `mcp-bridge dev` reports, in quotes"
        raise PageError(f"{base} needs a valid token. {hint}")
    if status == 404:
        raise PageError(f"{base} has no page. Set `http.page: true` in its settings, or start it with `mcp-bridge dev`")
    try:
        reason = load_json(body)["error"]["message"]
    except (ValueError, TypeError, LookupError):
        reason = "it gives no reason"
    raise PageError(f"{base} has rejected the request with status {status}: {reason}")


def _describe_failure(error: Exception) -> str:
    return str(error) or type(error).__name__
