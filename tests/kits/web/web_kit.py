"""A bridge with its page on a real socket, and a client of the page's API."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from typing import Any

import anyio
import httpx2

from mcp_bridge import ToolRegistry
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._app.operator_api import build_operator_api
from mcp_bridge._app.serve import to_bridge
from mcp_bridge._settings import Settings
from mcp_bridge._transports.http.access import Access
from mcp_bridge._transports.http.app import BridgeApp, HttpOptions
from mcp_bridge._transports.http.bearer import Authenticator, StaticTokens
from mcp_bridge._transports.http.server import format_address, listen, serve
from mcp_bridge._web.api import OperatorApi
from mcp_bridge._web.subject import PageOptions
from tests.kits.constants import TIMEOUT
from tests.kits.http.http_hosting import HttpWay, make_stateless_request

TOKEN = "operator-token"
MODERN, LEGACY = HttpWay("http", "2026-07-28"), HttpWay("http", "legacy")
Json = dict[str, Any]


class PageReader:
    """A reader of the page's API, with a record of the events."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self.http = http
        self.events: list[tuple[str, str, Json]] = []
        self._news = anyio.Event()

    async def read_state(self) -> Json:
        """Return the state."""
        response = await self.http.get("/page/state")
        assert response.status_code == 200, response.text
        state: Json = response.json()
        return state

    async def post(self, path: str, **body: Any) -> httpx2.Response:
        """Post an action."""
        return await self.http.post(f"/page/{path}", json=body)

    async def call_tool(self, name: str, **arguments: Any) -> Json:
        """Call a tool as a stateless client without user interaction."""
        request = make_stateless_request("tools/call", {"name": name, "arguments": arguments})
        response = await self.http.post("/mcp", **request)
        result: Json = response.json()["result"]
        return result

    @contextlib.asynccontextmanager
    async def follow(self, last: str | None = None) -> AsyncIterator[PageReader]:
        """Receive events during the block, from the first one on."""
        headers = {"Last-Event-ID": last} if last is not None else {}
        async with (
            self.http.stream("GET", "/page/events", headers=headers) as response,
            anyio.create_task_group() as tasks,
        ):
            assert response.status_code == 200
            tasks.start_soon(self._receive, response)
            if last is None:
                await self.wait_for("reset")
            yield self
            tasks.cancel_scope.cancel()

    async def wait_for(self, name: str, is_wanted: Callable[[Json], bool] = lambda data: True) -> Json:
        """Wait for an event of this name; return its data."""
        with anyio.fail_after(TIMEOUT):
            while True:
                for _, event, data in self.events:
                    if event == name and is_wanted(data):
                        return data
                self._news = anyio.Event()
                await self._news.wait()

    async def wait_for_state(self, is_wanted: Callable[[Json], bool]) -> Json:
        """Read the state until it is as wanted."""
        with anyio.fail_after(TIMEOUT):
            while not is_wanted(state := await self.read_state()):  # noqa: ASYNC110 - the state has no events
                await anyio.sleep(0.01)
        return state

    async def _receive(self, response: httpx2.Response) -> None:
        fields: dict[str, str] = {}
        async for line in response.aiter_lines():
            name, _, value = line.partition(":")
            if line and name:
                fields[name] = value.strip()
            elif "data" in fields:
                self.events.append((fields.get("id", ""), fields["event"], json.loads(fields["data"])))
                self._news.set()
                fields = {}


class ServedPage:
    """A served bridge: its URL, its page and its tokens, and readers of the page."""

    def __init__(self, base: str, page: OperatorApi, tokens: StaticTokens) -> None:
        self.base = base
        self.page = page
        self.tokens = tokens

    @contextlib.asynccontextmanager
    async def read(self, token: str | None = TOKEN, **headers: str) -> AsyncIterator[PageReader]:
        """Yield a reader with a token."""
        authorization = {"Authorization": f"Bearer {token}"} if token is not None else {}
        async with httpx2.AsyncClient(base_url=self.base, headers=authorization | headers, timeout=TIMEOUT) as http:
            yield PageReader(http)


@contextlib.asynccontextmanager
async def serve_page(
    tools: ToolRegistry | Bridge,
    *,
    token: str | None = TOKEN,
    principals: Mapping[str, str] | None = None,
    origins: Sequence[str] = (),
    settings: Settings | None = None,
    **options: Any,
) -> AsyncIterator[ServedPage]:
    """Serve a bridge with its page on a free port. `options` are fields of `PageOptions`."""
    bridge = to_bridge(tools)
    tokens = StaticTokens(token, principals or {})
    authenticator = Authenticator(tokens) if token is not None or principals else None
    access = Access.for_host("127.0.0.1", origins=origins, authenticator=authenticator)
    page = build_operator_api(bridge, settings, PageOptions(origins=origins, **options))
    app = BridgeApp(bridge.endpoint, HttpOptions(access=access, page=page), around=bridge.run_sources)
    bound = listen("127.0.0.1", 0, has_token=authenticator is not None)
    async with anyio.create_task_group() as tasks:
        up = anyio.Event()
        tasks.start_soon(partial(serve, app, bound, handles_signals=False, started=up.set))
        await up.wait()
        await bridge.wait_until_started()
        yield ServedPage(format_address(bound), page, tokens)
        tasks.cancel_scope.cancel()
