"""Listen streams of one client leave descriptors for the streams and calls of others."""

from __future__ import annotations

import contextlib

import httpx2
import pytest

from tests.kits.constants import TIMEOUT
from tests.kits.http.http_hosting import build_registry, make_entry, make_stateless_request, serve_http

pytestmark = pytest.mark.anyio
resource = pytest.importorskip("resource")
LIMIT = 64
SHARE = LIMIT // 2 // 8


async def test_listen_streams_of_one_client_take_a_sixteenth_of_the_descriptors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (LIMIT, LIMIT))
    request = make_stateless_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    async with serve_http(build_registry(make_entry("work"))) as (base, _), contextlib.AsyncExitStack() as streams:
        url, kinds = f"{base}/mcp", []
        http = await streams.enter_async_context(httpx2.AsyncClient(timeout=TIMEOUT))
        for _ in range(SHARE + 3):
            stream = await streams.enter_async_context(http.stream("POST", url, **request))
            kinds.append(stream.headers["content-type"])
        assert kinds == ["text/event-stream"] * SHARE + ["application/json"] * 3
        response = await http.post(url, **make_stateless_request("tools/call", {"name": "work", "arguments": {}}))
        assert response.json()["result"]["content"][0]["text"] == "work"
