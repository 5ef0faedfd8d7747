"""Servers that share a Redis share what outlives a call: any of them answers for what another has stored."""

from __future__ import annotations

from pathlib import Path

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
    state = {"store": "redis", "url": redis_process.url}
    with Cluster(tmp_path, "", TOOLS, state=state, limits={"result": "64 KiB"}) as cluster:
        one, other = cluster.start_server(), cluster.start_server()
        link = one.call("write")["content"][-1]
        rest = other.ask("resources/read", link["uri"], uri=link["uri"])["result"]["contents"][0]["text"]
        assert rest.endswith("the end")
        redis_process.kill()
        assert one.call("write")["content"][0]["text"].startswith("xxx")
        assert "error" in other.ask("resources/read", link["uri"], uri=link["uri"])
        redis_process.start()
        assert other.ask("resources/read", link["uri"], uri=link["uri"])["result"]["contents"][0]["text"] == rest
