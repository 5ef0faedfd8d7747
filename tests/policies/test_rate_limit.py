"""`rate_limit`: the counted calls, the separate counts, and counts in Redis."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from mcp.client import Client

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge.testing import connect
from tests.kits.constants import STATELESS
from tests.kits.http.http_hosting import HttpWay
from tests.kits.http.http_process import get_command, run_http_server
from tests.kits.loops import BOTH_LOOPS
from tests.kits.policies.policies_kit import build_bridge, call, open_tools
from tests.kits.redis_server import RedisServer, redis_process, redis_server  # noqa: F401

TOOLS = '''
@tool
def one() -> str:
    """One."""
    return "one"


@tool
def two() -> str:
    """Two."""
    return "two"


@tool
async def both(ctx: CallContext) -> list:
    """Call both."""
    return [(await ctx.invoke(name)).code for name in ("one", "two", "one")]


@resource("notes://{title}")
def note(title: str) -> str:
    """A note."""
    return title
'''
CALLS = [("one", "ann"), ("two", "ann"), ("one", "eve"), ("one", "ann")]


@BOTH_LOOPS
@pytest.mark.parametrize(
    ("per", "callers"),
    [
        (["tool", "principal"], [False, False, False, True]),
        ("tool", [False, False, True, True]),
        ("principal", [False, True, False, True]),
        ([], [False, True, True, True]),
    ],
)
async def test_calls_are_counted_for_each_tool_and_principal(tmp_path: Path, per: Any, callers: list[bool]) -> None:
    async with open_tools(tmp_path, TOOLS, {"rate_limit": {"limit": "1/day", "per": per}}) as bridge:
        results = [await call(bridge, tool, principal) for tool, principal in CALLS]
    assert [result.code == "rate_limited" for result in results] == callers


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        ("1/minute", "at most 1 call per minute for each tool. Retry in"),
        ("100/day; 1 per 2 hours", "at most 1 call per 2 hours for each tool. Retry in"),
    ],
)
async def test_the_error_names_the_limit_that_is_exceeded(tmp_path: Path, limit: str, text: str) -> None:
    async with open_tools(tmp_path, TOOLS, {"rate_limit": {"limit": limit, "per": "tool"}}) as bridge:
        await call(bridge, "one")
        assert f"Tool 'one' did not run: {text}" in (await call(bridge, "one")).error_text


async def test_each_limit_counts_the_calls_that_it_selects(tmp_path: Path) -> None:
    policy = [
        {"rate_limit": {"tools": "one", "limit": "1/day"}},
        {"rate_limit": {"principals": "e*", "limit": "1/day"}},
    ]
    async with open_tools(tmp_path, TOOLS, *policy) as bridge:
        codes = [(await call(bridge, tool, who)).code for tool, who in [("two", "ann"), ("two", "ann"), ("two", "eve")]]
        assert codes == [None, None, None]
        assert (await call(bridge, "two", "eve")).code == "rate_limited"


async def test_a_large_limit_is_enforced_too(tmp_path: Path) -> None:
    async with open_tools(tmp_path, TOOLS, {"rate_limit": {"limit": "1001/day"}}) as bridge:
        codes = [(await call(bridge, "one")).code for _ in range(1003)]
    assert codes == [None] * 1001 + ["rate_limited"] * 2


@pytest.mark.parametrize("limit", ["1/hour", "1001/hour"])
async def test_a_clock_that_is_set_back_does_not_make_callers_wait_longer(tmp_path: Path, limit: str) -> None:
    async with open_tools(tmp_path, TOOLS, {"rate_limit": {"limit": limit}}) as bridge:
        for _ in range(int(limit.partition("/")[0])):
            assert (await call(bridge, "one")).code is None
        two_days_ago = time.time() - 2 * 86400
        with patch("time.time", lambda: two_days_ago):
            error = (await call(bridge, "one")).error_text
    assert 1 <= int(re.findall(r"Retry in (\d+) seconds", error)[0]) <= 2 * 3600


async def test_calls_that_a_tool_makes_count(tmp_path: Path) -> None:
    async with open_tools(tmp_path, TOOLS, {"rate_limit": {"limit": "1/day"}}) as bridge:
        assert (await call(bridge, "both")).output == [None, None, "rate_limited"]


async def test_resources_of_a_template_count_together(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(f"from mcp_bridge import CallContext, tool, resource\n{TOOLS}")
    bridge = build_bridge(tmp_path, {"type": "python", "path": "tools.py"}, {"rate_limit": {"limit": "1/day"}})
    async with connect(bridge) as client:
        await client.read_resource("notes://a")
        # Any number of URIs match the template.
        for uri in ("notes://a", "notes://b"):
            with pytest.raises(Exception, match=f"Resource '{uri}' did not run: at most 1 call per day"):
                await client.read_resource(uri)


@pytest.mark.parametrize("limit", ["2/day", "2/day; 2 per 1 day"])
@pytest.mark.parametrize("is_shared", [False, True], ids=["memory", "redis"])
async def test_equal_limits_count_a_call_once(
    tmp_path: Path,
    redis_server: str,  # noqa: F811
    is_shared: bool,
    limit: str,
) -> None:
    policy = [{"rate_limit": {"limit": limit}}] * 2
    state = {"store": redis_server} if is_shared else {}
    async with open_tools(tmp_path, TOOLS, *policy, state=state) as bridge:
        assert [(await call(bridge, "one")).code for _ in range(3)] == [None, None, "rate_limited"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"limit": "often"}, "policy[0].rate_limit.limit: expected limits such as '60/minute'"),
        ({}, "policy[0].rate_limit.limit: this key is required"),
    ],
)
def test_unusable_limits_are_errors_with_their_place(tmp_path: Path, options: Any, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build_bridge(tmp_path, {"type": "python", "path": "tools.py"}, {"rate_limit": options})
    assert problem in str(caught.value)


@contextlib.asynccontextmanager
async def serve(folder: Path, url: str) -> AsyncIterator[Any]:
    """Serve a limit in Redis, in a separate process. Yields a function that connects a principal."""
    folder.mkdir()  # noqa: ASYNC240
    settings = {
        "sources": [{"type": "python", "path": "tools.py"}],
        "policy": [{"rate_limit": {"limit": "3/day"}}],
        "state": {"store": url},
        "http": {"tokens": {"ann": "env:TOKEN_ANN", "eve": "env:TOKEN_EVE"}},
    }
    (folder / "limited.json").write_text(json.dumps(settings))
    argv = get_command("limited.json", "--http", "127.0.0.1:0")
    env = {**os.environ, "TOKEN_ANN": "token-of-ann", "TOKEN_EVE": "token-of-eve"}
    async with run_http_server(folder, argv, env) as server:
        yield lambda name: HttpWay("http", STATELESS).connect(server.base, token=f"token-of-{name}")


async def try_call(client: Client) -> bool:
    result = await client.call_tool("there", {})
    return not result.is_error


async def test_a_limit_in_redis_holds_across_two_servers(tmp_path: Path, redis_process: RedisServer) -> None:  # noqa: F811
    url = redis_process.url
    async with (
        serve(tmp_path / "one", url) as first_server,
        serve(tmp_path / "two", url) as two,
        first_server("ann") as first,
        two("ann") as second,
        two("eve") as eve,
    ):
        calls = [first, second, first, second, first]
        assert [await try_call(client) for client in calls] == [True, True, True, False, False]
        assert await try_call(eve)
        # Without Redis, each server counts alone.
        redis_process.kill()
        assert [await try_call(client) for client in (first, second)] == [True, True]
        assert [await try_call(first) for _ in range(3)] == [True, True, False]
