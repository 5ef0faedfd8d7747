"""Sends the same stateless requests to the engine's app and to the SDK's app, over HTTP without sockets."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx2
import orjson

from mcp_bridge import asgi_app
from mcp_bridge._app.bridge import Bridge
from tests.client.http_client import encode_header
from tests.kits.oracle.oracle_offers import IDENTITY, make_registry
from tests.kits.oracle.oracle_server import OracleServer
from tests.kits.oracle.twin_servers import Outcome, TwinServers

NAMES = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class HttpTwin:
    """A client of one app. `status` is the status of the last response."""

    def __init__(self, app: Any) -> None:
        self._http = httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1:8000")
        self._line = b""
        self._sent: list[Any] = []
        self.status = 0

    def deliver(self, line: bytes) -> None:
        """Keep a message until `post` sends it."""
        self._line = line

    async def post(self, changes: Mapping[str, str | None]) -> None:
        """Send the message, and wait for the whole response. `changes` are headers; None leaves one out."""
        headers = {**make_headers(self._line), **changes}
        all_headers = {name: value for name, value in headers.items() if value is not None}
        response = await self._http.post("/mcp", content=self._line, headers=all_headers)
        self.status = int(response.status_code)
        media_type = response.headers.get("content-type", "").partition(";")[0]
        if media_type == "text/event-stream":
            lines = [line.removeprefix("data:") for line in response.text.splitlines() if line.startswith("data:")]
        else:
            lines = [response.text] if media_type == "application/json" else []
        self._sent = [json.loads(line) for line in lines if line.strip()]

    def collect(self) -> list[Any]:
        """Return the messages of the last response."""
        messages, self._sent = self._sent, []
        return messages


class HttpTwinServers(TwinServers):
    """One client of both apps."""

    def __init__(self, engine: HttpTwin, oracle: HttpTwin) -> None:
        super().__init__(engine, oracle)
        self._twins = engine, oracle
        self._changes: Mapping[str, str | None] = {}

    async def post(self, line: bytes, changes: Mapping[str, str | None]) -> Outcome:
        """Send a message with changed headers to both apps."""
        self._changes = changes
        return await self.exchange(line)

    async def _collect(self, line: bytes, message: dict[str, Any] | None) -> Outcome:
        for twin in self._twins:
            await twin.post(self._changes)
        engine, oracle = self._twins
        return replace(await super()._collect(line, message), statuses=(engine.status, oracle.status))


def make_headers(line: bytes) -> dict[str, str]:
    """Return the headers for a body, as a client of 2026-07-28 sends them."""
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
    }
    try:
        message = orjson.loads(line)
    except ValueError:
        message = None
    method = message.get("method") if isinstance(message, dict) else None
    if isinstance(method, str):
        params = message.get("params")
        name = params.get(NAMES.get(method, "")) if isinstance(params, dict) else None
        values = {"Mcp-Method": method} | ({"Mcp-Name": name} if isinstance(name, str) else {})
        headers |= {key: encode_header(value) for key, value in values.items()}
    return headers


@asynccontextmanager
async def connect_http_twins() -> AsyncIterator[HttpTwinServers]:
    """Run the apps of the engine and of the oracle with separate registries."""
    engine, oracle = asgi_app(Bridge(make_registry(), identity=IDENTITY)), OracleServer(make_registry(), IDENTITY)
    app = oracle.make_app()
    async with engine.lifespan(), app.router.lifespan_context(app):
        yield HttpTwinServers(HttpTwin(engine), HttpTwin(app))
