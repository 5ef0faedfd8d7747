"""Handshake-era sessions and SSE streams: how many there may be, and when a session ends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx2
import pytest

from mcp_bridge._transports.http.sessions import SessionOptions
from tests.client.http_client import HttpSession, open_session, read_events
from tests.kits.constants import HTTP_HEADERS, TIMEOUT
from tests.kits.http.http_hosting import build_registry, make_entry, make_initialize, make_stateless_request, serve_http
from tests.kits.http.http_process import fail_to_start, get_command, run_http_server
from tests.kits.http.http_streams import open_http, summarize

SETTINGS = """
sources:
  - {type: python, path: tools.py}
http:
  port: 0
  sessions: 1
  idle: 1h
state:
  store: their_stores:Told
"""
THEIR_STORES = """
import sys
from mcp_bridge._storage.stores.memory import MemoryStore


class Told(MemoryStore):
    async def set(self, key, value, ttl):
        print(f"kept for {ttl:g} seconds", file=sys.stderr, flush=True)
        await super().set(key, value, ttl)
"""


@asynccontextmanager
async def serve_limited(**options: float) -> AsyncIterator[httpx2.AsyncClient]:
    """Yield a plain HTTP client of a bridge with few sessions."""
    sessions = SessionOptions(**options)  # type: ignore[arg-type]
    async with serve_http(build_registry(make_entry("there")), sessions=sessions) as (base, _), open_http(base) as http:
        yield http


async def send_initialize(http: httpx2.AsyncClient) -> httpx2.Response:
    """Request a session."""
    return await http.post("/mcp", json=make_initialize(), headers=HTTP_HEADERS)


async def wait_for_room(http: httpx2.AsyncClient) -> None:
    """Try to open a session until the end of another one makes room."""
    with anyio.fail_after(TIMEOUT):
        while (await send_initialize(http)).status_code != 200:
            await anyio.lowlevel.checkpoint()


async def test_a_session_beyond_the_limit_ends_the_one_with_the_longest_idle_time() -> None:
    async with serve_limited(sessions=2) as http:
        first, second = await open_session(http), await open_session(http)
        assert [await second.ping(), await first.ping()] == [200, 200]
        await wait_for_room(http)
        assert [await second.ping(), await first.ping()] == [404, 200]
        assert await first.delete() == 200
        assert await first.ping() == 404


async def test_a_session_beyond_the_limit_is_rejected_while_all_others_have_streams() -> None:
    async with serve_limited(sessions=1) as http:
        talk = await open_session(http)
        async with http.stream("GET", "/mcp", headers=talk.headers) as stream:
            assert stream.status_code == 200
            answer = await send_initialize(http)
            assert answer.status_code == 503
            assert answer.json()["error"]["message"] == "Too many open sessions"
        await wait_for_room(http)
        assert await talk.ping() == 404


async def test_stateless_requests_are_served_at_the_limit_of_sessions() -> None:
    async with serve_limited(sessions=1) as http:
        await open_session(http)
        for _ in range(3):
            assert (await http.post("/mcp", **make_stateless_request("tools/list"))).status_code == 200


async def test_rejected_requests_open_no_session() -> None:
    async with serve_limited(sessions=1) as http:
        for _ in range(3):
            listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            assert (await http.post("/mcp", json=listing, headers=HTTP_HEADERS)).status_code == 400
        assert (await send_initialize(http)).status_code == 200


async def test_an_idle_session_ends_and_its_id_is_unknown() -> None:
    async with serve_limited(sessions=1, idle=0.05) as http:
        idle = HttpSession(
            http, {**HTTP_HEADERS, "Mcp-Session-Id": (await send_initialize(http)).headers["mcp-session-id"]}
        )
        # Each request restarts the idle timeout.
        for pause in (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4):
            await anyio.sleep(pause)
            if await idle.ping() == 404:
                return
        pytest.fail("the session never ended")


async def test_an_sse_stream_beyond_the_limit_is_rejected_until_another_closes() -> None:
    async with serve_limited(sessions=2) as http, http.stream("GET", "/sse") as first:
        assert first.status_code == 200
        async with http.stream("GET", "/sse") as second:
            assert second.status_code == 200
            answer = await http.get("/sse")
            assert answer.status_code == 503
            assert answer.json()["error"]["message"].startswith("Too many open streams.")
            assert (await http.post("/sse")).status_code == 405
        with anyio.fail_after(TIMEOUT):
            while (await _status(http)) != 200:
                await anyio.lowlevel.checkpoint()


async def _status(http: httpx2.AsyncClient) -> int:
    async with http.stream("GET", "/sse") as stream:
        return stream.status_code


async def test_sessions_follow_the_settings(tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_text(SETTINGS)
    (tmp_path / "their_stores.py").write_text(THEIR_STORES)
    async with (
        run_http_server(tmp_path, get_command("settings.yaml", "--http", "settings")) as server,
        open_http(server.base) as http,
    ):
        talk = await open_session(http)
        await server.wait_for_stderr("kept for 3600 seconds")
        async with http.stream("GET", "/mcp", headers=talk.headers) as listening:
            assert listening.status_code == 200
            assert (await send_initialize(http)).status_code == 503
        async with talk.stream_call(1, "there") as stream:
            first_event, answer = [event async for event in read_events(stream)]
        assert (first_event.retry, summarize(answer)) == ("1000", "there")


@pytest.mark.parametrize("over", [(), ("--http", "settings")], ids=["stdio", "http"])
def test_an_unknown_store_is_rejected_at_the_start(tmp_path: Path, over: tuple[str, ...]) -> None:
    (tmp_path / "settings.yaml").write_text("sources: [{type: python, path: tools.py}]\nstate: {store: memry}")
    code, stderr = fail_to_start(tmp_path, "settings.yaml", *over)
    assert code == 2
    assert "state.store: unknown store 'memry'. Known stores: memory, sqlite, sqlite:PATH, redis://HOST" in stderr
