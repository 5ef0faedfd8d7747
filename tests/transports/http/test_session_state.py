"""The state of sessions over HTTP: no client can read the state of another one."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx2

from mcp_bridge import CallContext, ToolRegistry, asgi_app
from mcp_bridge._transports.http.app import BridgeApp
from mcp_bridge._transports.http.bearer import StaticTokens
from tests.kits.constants import ENVELOPE
from tests.kits.http.http_hosting import make_stateless_request, serve_http
from tests.transports.http.test_principals import connect_as, make_access

TOKENS = {"ann": "token-of-ann", "eve": "token-of-eve"}
NAMED = {"mcp-bridge/session": "mine"}


def make_counter() -> ToolRegistry:
    registry = ToolRegistry()

    @registry.tool
    async def count(ctx: CallContext) -> str:
        number: int = await ctx.get_state("number", 0) + 1
        await ctx.set_state("number", number)
        return str(number)

    return registry


async def count(http: httpx2.AsyncClient, meta: dict[str, Any] | None = None) -> str:
    request = make_stateless_request("tools/call", {"name": "count", "arguments": {}})
    request["json"]["params"]["_meta"] = {**ENVELOPE, **(meta or {})}
    return str((await http.post("/mcp", **request)).json()["result"]["content"][0]["text"])


@contextlib.asynccontextmanager
async def make_client(app: BridgeApp) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(app)
    async with app.lifespan(), httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
        yield http


async def test_each_principal_has_its_own_state_under_the_same_session_name() -> None:
    access = make_access(StaticTokens(named=TOKENS))
    async with (
        serve_http(make_counter(), access=access) as (base, _),
        connect_as("ann", base) as ann,
        connect_as("eve", base) as eve,
    ):
        assert [await count(ann), await count(ann), await count(eve)] == ["1", "2", "1"]
        assert [await count(ann, NAMED), await count(ann, NAMED), await count(eve, NAMED)] == ["1", "2", "1"]


async def test_the_state_of_a_call_without_session_and_principal_is_deleted() -> None:
    async with make_client(asgi_app(make_counter())) as http:
        assert [await count(http), await count(http)] == ["1", "1"]
        assert [await count(http, NAMED), await count(http, NAMED)] == ["1", "2"]
