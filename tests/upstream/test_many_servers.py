"""Twenty servers including five broken ones, and the memory for broken ones."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import psutil
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from mcp_bridge._contracts.source import SourceServices
from tests.kits.constants import TIMEOUT
from tests.kits.processes.processes_kit import find_processes, get_command, make_token, wait_until_gone
from tests.kits.upstream.upstream_kit import (
    Json,
    build_source,
    call_text,
    list_names,
    run_http_server,
    wait_for_state,
    write_command,
    write_settings,
)

pytestmark = pytest.mark.anyio
BROKEN = ("crash at start", "never reads", "hang in list", "endless garbage")
MEGABYTE = 1024**2


@contextlib.asynccontextmanager
async def serve(folder: Path, servers: Json, token: str) -> AsyncIterator[Client]:
    """Connect the official client to a bridge in another process. Its command line ends with the token."""
    (folder / token).mkdir()
    settings = write_settings(folder / token, servers, limits={"timeout": "20s"})
    program, *arguments = get_command("--no-guard", str(settings))
    async with Client(stdio_client(StdioServerParameters(command=program, args=arguments)), cache=None) as client:
        yield client


def find_bridge(token: str) -> psutil.Process:
    """Return the process of the bridge."""
    (bridge,) = [item for item in map(psutil.Process, find_processes(token)) if "mcp_bridge" in item.cmdline()]
    return bridge


async def test_servers_start_in_turns_and_slow_ones_do_not_delay_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_bridge._sources.upstream.source.START_TURN", 0.2)
    slow, fast = build_source(write_command("never reads"), tmp_path), build_source(write_command(), tmp_path)
    turns = anyio.CapacityLimiter(1)
    for source in (slow, fast):
        source.attach(SourceServices(starts=turns))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(slow.run, lambda offer: None)
        while not turns.borrowed_tokens:  # noqa: ASYNC110 - a limiter has no event
            await anyio.sleep(0.01)
        tasks.start_soon(fast.run, lambda offer: None)
        await wait_for_state(fast, "ready")
        assert slow.status.state == "starting"
        tasks.cancel_scope.cancel()
    assert turns.borrowed_tokens == 0


async def test_fifteen_good_servers_are_served_next_to_five_broken_ones(tmp_path: Path) -> None:
    token = make_token()
    with run_http_server() as address:
        good: Json = {f"stdio{number}": write_command(token=token) for number in range(9)}
        good |= {f"http{number}": {"url": f"{address}/mcp"} for number in range(5)}
        good["sse"] = {"url": f"{address}/sse", "transport": "sse"}
        broken: Json = {f"bad{number}": write_command(fault, token) for number, fault in enumerate(BROKEN)}
        broken["refused"] = {"url": "http://127.0.0.1:9/mcp"}
        async with serve(tmp_path, {**broken, **good}, token) as client:
            assert await call_text(client, "stdio0__echo") == "hello"
            with anyio.fail_after(TIMEOUT):
                while len(await list_names(client)) < 15:  # noqa: ASYNC110 - on a busy machine, some are late
                    await anyio.sleep(0.1)
            assert set(await list_names(client)) == {f"{name}__echo" for name in good}
            for name in good:
                assert await call_text(client, f"{name}__echo", name) == name
    wait_until_gone(token)


@pytest.mark.parametrize(
    "fault", ["long line", "endless line", "floods notifications", "floods requests", "floods replies", "stops reading"]
)
async def test_a_broken_server_takes_a_bounded_amount_of_memory(fault: str, tmp_path: Path) -> None:
    token = make_token()
    async with serve(tmp_path, {"bad": write_command(fault, token), "good": write_command()}, token) as client:
        bridge = find_bridge(token)
        before, highest = bridge.memory_info().rss, 0
        with anyio.move_on_after(5):
            for number in range(100):
                await call_text(client, "good__echo", "x" * 10_000)
                if number in {0, 50}:
                    with anyio.move_on_after(2):
                        await call_text(client, "bad__echo", "long")
                highest = max(highest, bridge.memory_info().rss)
                await anyio.sleep(0.02)
        assert highest - before < 160 * MEGABYTE
        assert await call_text(client, "good__echo") == "hello"


async def test_calls_to_a_server_that_does_not_read_take_a_bounded_amount_of_memory(tmp_path: Path) -> None:
    token = make_token()
    async with serve(tmp_path, {"bad": write_command("stops reading", token)}, token) as client:
        bridge = find_bridge(token)
        assert await call_text(client, "bad__echo") == "hello"
        before, text = bridge.memory_info().rss, ""
        with anyio.fail_after(TIMEOUT):
            while "ended during the call" not in text:
                with anyio.move_on_after(1):
                    text = await call_text(client, "bad__echo", "x" * 3 * MEGABYTE)
                assert bridge.memory_info().rss - before < 200 * MEGABYTE
