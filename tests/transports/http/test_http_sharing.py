"""A list that a token was asked for is not for sharing (MCP 2026-07-28, caching)."""

from __future__ import annotations

import httpx2
import pytest

from mcp_bridge import ToolRegistry, asgi_app

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.mark.parametrize(
    ("method", "token", "scope"),
    [("tools/list", None, "public"), ("tools/list", "hush", "private"), ("server/discover", "hush", "private")],
)
async def test_a_server_with_a_token_marks_its_answers_private(method: str, token: str | None, scope: str) -> None:
    app = asgi_app(ToolRegistry(), token=token)
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": method,
        "Authorization": f"Bearer {token}",
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": META}}
    transport = httpx2.ASGITransport(app)
    async with app.lifespan(), httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        answer = await client.post("/mcp", json=body, headers=headers)
    assert answer.json()["result"]["cacheScope"] == scope
