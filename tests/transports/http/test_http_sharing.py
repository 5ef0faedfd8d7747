"""A list behind a token is not for sharing (MCP 2026-07-28, caching)."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from starlette.authentication import SimpleUser

from mcp_bridge import ToolRegistry, asgi_app
from tests.kits.constants import ENVELOPE
from tests.kits.http.http_hosting import make_stateless_request


@pytest.mark.parametrize(
    ("method", "token", "scope"),
    [("tools/list", None, "public"), ("tools/list", "hush", "private"), ("server/discover", "hush", "private")],
)
async def test_a_server_with_a_token_marks_its_responses_private(method: str, token: str | None, scope: str) -> None:
    app = asgi_app(ToolRegistry(), token=token)
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": method,
        "Authorization": f"Bearer {token}",
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": ENVELOPE}}
    transport = httpx2.ASGITransport(app)
    async with app.lifespan(), httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        answer = await client.post("/mcp", json=body, headers=headers)
    assert answer.json()["result"]["cacheScope"] == scope


@pytest.mark.parametrize("method", ["tools/list", "server/discover"])
async def test_responses_to_users_of_an_outer_app_are_private(method: str) -> None:
    app = asgi_app(ToolRegistry())

    async def outer(scope: Any, receive: Any, send: Any) -> None:
        name = dict(scope["headers"]).get(b"x-name")
        await app({**scope, **({"user": SimpleUser(name.decode())} if name else {})}, receive, send)

    transport = httpx2.ASGITransport(outer)
    async with app.lifespan(), httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        for headers, scope in (({}, "public"), ({"X-Name": "ann"}, "private"), ({}, "public")):
            answer = await client.post("/mcp", **make_stateless_request(method, **headers))
            assert answer.json()["result"]["cacheScope"] == scope
