"""Servers with a common Redis share their stored state, so that each can respond for the others."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
from redis.asyncio import Redis

from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._settings import load
from mcp_bridge.testing import connect
from tests.kits.constants import TIMEOUT
from tests.kits.redis_server import RedisServer, redis_process  # noqa: F401
from tests.kits.scale.cluster import Cluster

TOOLS = """
from mcp_bridge import tool

@tool
def write() -> str:
    return "x" * 100_000 + "the end"
"""


def test_the_rest_of_a_truncated_result_is_at_any_server_unless_redis_is_down(
    tmp_path: Path,
    redis_process: RedisServer,  # noqa: F811
) -> None:
    state = {"store": redis_process.url}
    with Cluster(tmp_path, "", TOOLS, state=state, limits={"result": "64 KiB"}) as cluster:
        first, second = cluster.start_server(), cluster.start_server()
        link = first.call("write")["content"][-1]
        remainder = second.request("resources/read", link["uri"], uri=link["uri"])["result"]["contents"][0]["text"]
        assert remainder.endswith("the end")
        redis_process.kill()
        assert first.call("write")["content"][0]["text"].startswith("xxx")
        assert "error" in second.request("resources/read", link["uri"], uri=link["uri"])
        redis_process.start()
        assert (
            second.request("resources/read", link["uri"], uri=link["uri"])["result"]["contents"][0]["text"] == remainder
        )


async def test_a_server_that_ends_closes_its_connections(tmp_path: Path, redis_process: RedisServer) -> None:  # noqa: F811
    (tmp_path / "tools.py").write_text(TOOLS)
    file = tmp_path / "bridge.json"
    settings = {
        "sources": [{"type": "python", "path": "tools.py"}],
        "state": {"store": redis_process.url},
        "limits": {"result": "64 KiB"},
        "policy": [{"rate_limit": {"limit": "9/day"}}, {"approval": {"default": "allow"}}],
    }
    file.write_text(json.dumps(settings))
    async with Redis.from_url(redis_process.url) as redis:
        async with connect(build_from_settings(load(file, {}))) as client:
            await client.call_tool("write")
            assert len(await redis.client_list()) > 1
        with anyio.fail_after(TIMEOUT):
            while len(await redis.client_list()) > 1:  # noqa: ASYNC110 - Redis notices later
                await anyio.sleep(0.01)
