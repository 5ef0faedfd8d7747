"""The ASGI app inside an outer app, with its lifespan and without."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.authentication import SimpleUser, UnauthenticatedUser
from starlette.routing import Mount

from mcp_bridge import asgi_app
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._transports.http.app import BridgeApp
from tests.client.http_client import open_session
from tests.kits.constants import HTTP_HEADERS, TIMEOUT
from tests.kits.http.http_hosting import (
    HTTP_WAYS,
    HttpWay,
    build_registry,
    make_entry,
    make_initialize,
    make_stateless_request,
    serve_http,
    serve_with_uvicorn,
)


def mount_in_starlette(app: Any) -> Any:
    return Starlette(routes=[Mount("/tools", app=app)], lifespan=app.lifespan)


def mount_in_fastapi(app: Any) -> Any:
    outer = FastAPI(lifespan=app.lifespan)
    outer.mount("/tools", app)
    return outer


def mount_with_own_lifespan(app: Any) -> Any:
    @contextlib.asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        async with app.lifespan():
            yield

    return Starlette(routes=[Mount("/deep", routes=[Mount("/tools", app=app)])], lifespan=lifespan)


@pytest.mark.parametrize(
    ("mount", "prefix", "way"),
    [
        (mount_in_starlette, "/tools", HTTP_WAYS[0]),
        (mount_in_starlette, "/tools", HTTP_WAYS[2]),
        (mount_in_fastapi, "/tools", HTTP_WAYS[1]),
        (mount_with_own_lifespan, "/deep/tools", HTTP_WAYS[3]),
    ],
)
async def test_a_mounted_bridge_lists_and_calls_under_its_prefix(mount: Any, prefix: str, way: HttpWay) -> None:
    app = asgi_app(build_registry(make_entry("there")))
    async with serve_with_uvicorn(mount(app)) as base, way.connect(f"{base}{prefix}") as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["there"]
        assert (await client.call_tool("there", {})).content[0].text == "there"  # type: ignore[union-attr]


async def test_a_mounted_bridge_without_its_lifespan_responds_503_with_advice() -> None:
    outer = Starlette(routes=[Mount("/tools", app=asgi_app(build_registry()))])
    async with serve_with_uvicorn(outer) as base, httpx2.AsyncClient(timeout=TIMEOUT) as http:
        for method, path in (("POST", "mcp"), ("GET", "mcp"), ("GET", "sse"), ("POST", "messages?session_id=0")):
            answer = await http.request(method, f"{base}/tools/{path}")
            assert answer.status_code == 503
            assert "lifespan=app.lifespan" in answer.json()["error"]["message"]
        health = await http.get(f"{base}/tools/health")
        assert (health.status_code, health.json()) == (503, {"status": "unavailable"})


async def test_a_mounted_bridge_keeps_its_guard() -> None:
    app = asgi_app(build_registry(make_entry("there")), token="abc", host="Tools.example")
    async with (
        serve_with_uvicorn(mount_in_fastapi(app)) as base,
        httpx2.AsyncClient(base_url=base, timeout=TIMEOUT) as http,
    ):
        assert (await http.get("/tools/sse")).status_code == 401
        assert (await http.get("/tools/health")).status_code == 200
        request = make_stateless_request("tools/list", Authorization="Bearer abc", Host="tools.example")
        assert (await http.post("/tools/mcp", **request)).status_code == 200
        evil = make_stateless_request("tools/list", Authorization="Bearer abc", Host="evil.example")
        assert (await http.post("/tools/mcp", **evil)).status_code == 421


async def test_a_bridge_is_unavailable_after_its_lifespan() -> None:
    app = asgi_app(build_registry(make_entry("there")))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost") as http:
        assert (await http.get("/health")).status_code == 503
        async with app.lifespan():
            assert (await http.get("/health")).status_code == 200
            assert (await http.post("/mcp", **make_stateless_request("tools/list"))).status_code == 200
        assert (await http.post("/mcp", **make_stateless_request("tools/list"))).status_code == 503


async def test_a_bridge_that_shuts_down_rejects_new_requests() -> None:
    async with (
        serve_http(build_registry(make_entry("there"))) as (base, app),
        httpx2.AsyncClient(timeout=TIMEOUT) as http,
    ):
        app.begin_shutdown()
        response = await http.post(f"{base}/mcp", **make_stateless_request("tools/list"))
        assert (response.status_code, (await http.get(f"{base}/health")).status_code) == (503, 503)
        assert "shutting down" in response.json()["error"]["message"]


async def test_another_server_runs_the_lifespan_of_the_app() -> None:
    app = asgi_app(build_registry(make_entry("there")))
    async with serve_with_uvicorn(app) as base:
        for way in HTTP_WAYS:
            async with way.connect(base) as client:
                assert (await client.call_tool("there", {})).content[0].text == "there"  # type: ignore[union-attr]


async def test_a_start_that_fails_is_reported_to_the_other_server() -> None:
    @contextlib.asynccontextmanager
    async def around() -> AsyncIterator[None]:
        raise RuntimeError("nothing to serve")
        yield

    app = BridgeApp(Bridge(build_registry()).endpoint, around=around)
    sent_messages: list[Any] = []

    async def receive() -> Any:
        return {"type": "lifespan.startup"}

    async def send(message: Any) -> None:
        sent_messages.append(message)

    with pytest.raises(RuntimeError, match="nothing to serve"):
        await app({"type": "lifespan"}, receive, send)
    assert sent_messages == [{"type": "lifespan.startup.failed", "message": "nothing to serve"}]


async def test_a_websocket_is_closed() -> None:
    sent_messages: list[Any] = []

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent_messages.append(message["type"])

    await asgi_app(build_registry())({"type": "websocket", "path": "/mcp", "headers": []}, receive, send)
    assert sent_messages == ["websocket.close"]


class Authenticating:
    """An app around another. It reads the user from a header, like Starlette's middleware."""

    def __init__(self, app: Any) -> None:
        self.app, self.lifespan = app, app.lifespan

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        name = dict(scope.get("headers", ())).get(b"x-name", b"").decode()
        user = SimpleUser(name) if name else UnauthenticatedUser()
        await self.app({**scope, "user": user}, receive, send)


async def test_a_session_is_only_known_to_its_user() -> None:
    app = Authenticating(asgi_app(build_registry(make_entry("there"))))
    async with serve_with_uvicorn(app) as base, httpx2.AsyncClient(base_url=base, timeout=TIMEOUT) as http:
        http.headers["X-Name"] = "ann"
        session = await open_session(http)
        for name, status in (("eve", 404), ("", 404), ("ann", 200)):
            http.headers["X-Name"] = name
            assert await session.ping() == status
        http.headers["X-Name"] = "eve"
        assert await session.delete() == 404


async def test_messages_to_an_sse_stream_are_only_accepted_from_its_user() -> None:
    app = Authenticating(asgi_app(build_registry()))
    async with (
        serve_with_uvicorn(app) as base,
        httpx2.AsyncClient(base_url=base, timeout=TIMEOUT, headers={"X-Name": "ann"}) as http,
        http.stream("GET", "/sse") as stream,
    ):
        lines = stream.aiter_lines()
        path = [await anext(lines), await anext(lines)][1].removeprefix("data: ")
        for name, status in (("eve", 404), ("ann", 202)):
            headers = {**HTTP_HEADERS, "X-Name": name}
            assert (await http.post(path, json=make_initialize(), headers=headers)).status_code == status
