"""A broken server over stdio affects only its tools."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import anyio
import pytest
from mcp.types import ElicitResult

from mcp_bridge._app.bridge import AttachedSource, Bridge
from mcp_bridge._engine.registry import ToolRegistry
from mcp_bridge.testing import connect
from tests.kits.constants import TIMEOUT
from tests.kits.loops import BOTH_LOOPS
from tests.kits.processes.processes_kit import make_token, wait_until_gone
from tests.kits.upstream.plain_server import MALFORMED, RAW
from tests.kits.upstream.upstream_kit import (
    build_source,
    call_text,
    connect_gateway,
    list_names,
    run_source,
    wait_for_state,
    wait_for_tool,
    write_command,
)

pytestmark = pytest.mark.anyio
SHORT = {"timeout": "2s"}
LONG = {"timeout": "60s"}
"""For the fault that takes as long as the machine needs to write and read the maximum length of a line."""
MISSING = {"command": "no-such-program"}
NEVER_READY = {
    "crash at start": "exit code 3",
    "hang at start": "did not start within 2 seconds",
    "hang in list": "did not start within 2 seconds",
    "malformed list": "has no list 'tools'",
    "never reads": "did not start within 2 seconds",
    "closes output": "has closed its output",
    "endless garbage": "did not start within 2 seconds",
}
"""Faults of servers that never offer anything, and the reason that the status has."""
AT_CALLS = {
    "crash in call": "ended during the call",
    "hang in call": "did not finish within 2 seconds",
    "long line": "hello",
    "endless line": "ended during the call",
    "wrong ids": "did not finish within 2 seconds",
    "stops reading": "hello",
    "garbage": "hello",
    "duplicate replies": "hello",
    "schema bombs": "hello",
    "pattern": "does not match",
    "floods notifications": "hello",
    "floods list changes": "hello",
    "floods requests": "hello",
    "floods replies": "hello",
    "ignores discover": "hello",
    "texts as ids": "hello",
    "byte order mark": "hello",
    "hang in prompts": "hello",
    "capability without parts": "hello",
}
"""Faults of servers whose tools are offered, and what a call returns."""


ON_TRIO = ("crash at start", "crash in call", "hang at start", "endless line", "stops reading", "floods notifications")


@pytest.mark.parametrize(
    ("fault", "anyio_backend"),
    [*((fault, "asyncio") for fault in (*NEVER_READY, *AT_CALLS)), *((fault, "trio") for fault in ON_TRIO)],
)
async def test_a_good_server_is_served_next_to_a_broken_one(fault: str, tmp_path: Path, anyio_backend: str) -> None:
    token = make_token()
    servers = {"good": write_command(token=token), "broken": write_command(fault, token)}
    async with connect_gateway(tmp_path, servers, limits=LONG if fault == "endless line" else SHORT) as client:
        assert await call_text(client, "good__echo") == "hello"
        if fault in AT_CALLS:
            await wait_for_tool(client, "broken__echo")
            assert AT_CALLS[fault] in await call_text(client, "broken__echo")
        for number in range(10):
            assert await call_text(client, "good__echo", str(number)) == str(number)
    wait_until_gone(token)


async def test_a_missing_program_does_not_affect_other_servers(tmp_path: Path) -> None:
    async with connect_gateway(tmp_path, {"good": write_command(), "broken": MISSING}) as client:
        assert await list_names(client) == ["good__echo"]
        assert await call_text(client, "good__echo") == "hello"


@pytest.mark.parametrize("fault", NEVER_READY)
async def test_the_status_has_the_reason_why_a_server_never_works(fault: str, tmp_path: Path) -> None:
    async with run_source(write_command(fault, start_timeout=2), tmp_path) as (source, client):
        status = await wait_for_state(source, "broken")
        assert NEVER_READY[fault] in status.reason
        assert status.failures >= 1
        assert await list_names(client) == []


async def test_the_status_names_a_missing_program(tmp_path: Path) -> None:
    async with run_source(MISSING, tmp_path) as (source, _):
        assert "'no-such-program' was not found" in (await wait_for_state(source, "broken")).reason


async def test_the_status_names_a_missing_working_directory(tmp_path: Path) -> None:
    async with run_source(write_command(cwd="nowhere"), tmp_path) as (source, _):
        assert "nowhere' does not exist" in (await wait_for_state(source, "broken")).reason


async def test_a_command_with_a_null_character_fails_like_a_missing_program(tmp_path: Path) -> None:
    async with run_source(write_command("a\0b"), tmp_path) as (source, _):
        assert "cannot be started" in (await wait_for_state(source, "broken")).reason


async def test_the_status_of_a_good_server_names_its_version(tmp_path: Path) -> None:
    async with run_source(write_command(), tmp_path) as (source, _):
        status = await wait_for_state(source, "ready")
        assert (status.server, status.version, status.reason, status.failures) == ("plain", "1.5", "", 0)
        assert abs(status.since - time.time()) < 60


@BOTH_LOOPS
async def test_a_list_that_hangs_does_not_affect_the_others(tmp_path: Path, anyio_backend: str) -> None:
    async with run_source(write_command("hang in prompts"), tmp_path) as (source, client):
        await wait_for_tool(client, "echo")
        assert (await wait_for_state(source, "degraded")).reason == "prompts/list: no response"
        assert await call_text(client, "echo") == "hello"


@BOTH_LOOPS
async def test_a_server_that_crashes_in_a_call_serves_the_next_one(tmp_path: Path, anyio_backend: str) -> None:
    async with run_source(write_command(), tmp_path) as (source, client):
        assert "ended during the call" in await call_text(client, "echo", "crash")
        assert await list_names(client) == ["echo"]
        assert await call_text(client, "echo") == "hello"
        assert (await wait_for_state(source, "ready")).failures == 1


async def test_calls_during_a_restart_wait_for_it(tmp_path: Path) -> None:
    async with run_source(write_command(), tmp_path) as (_, client):
        await call_text(client, "echo", "crash")
        texts: list[str] = []

        async def call_once() -> None:
            texts.append(await call_text(client, "echo"))

        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(call_once)
        assert texts == ["hello"] * 10


async def test_a_server_that_restarts_with_other_tools_is_listed_again(tmp_path: Path) -> None:
    async with run_source(write_command("other tools", str(tmp_path / "starts")), tmp_path) as (_, client):
        assert await list_names(client) == ["echo", "tool_1"]
        await call_text(client, "echo", "crash")
        await wait_for_tool(client, "tool_2")
        assert await list_names(client) == ["echo", "tool_2"]


async def test_clients_are_not_notified_of_a_restart_with_the_same_tools(tmp_path: Path) -> None:
    registry, changes = ToolRegistry(), list[str]()
    async with run_source(write_command(), tmp_path, registry=registry) as (_, client):
        registry.watch(lambda: changes.append("tools"))
        await call_text(client, "echo", "crash")
        assert await call_text(client, "echo") == "hello"
        assert changes == []


@pytest.mark.parametrize("case", MALFORMED)
async def test_a_malformed_result_fails_its_call_immediately(case: str, tmp_path: Path) -> None:
    async with run_source(write_command("malformed results"), tmp_path) as (_, client):
        await wait_for_tool(client, "echo")
        with anyio.fail_after(TIMEOUT):
            text = await call_text(client, "echo", case)
        assert "malformed" in text or case in {"unknown block", "empty"}
        assert "malformed" in await call_text(client, "echo", "text")


async def test_invalid_characters_and_numbers_in_a_result_are_replaced(tmp_path: Path) -> None:
    async with run_source(write_command("malformed results"), tmp_path) as (_, client):
        await wait_for_tool(client, "echo")
        with anyio.fail_after(TIMEOUT):
            result = await client.call_tool("echo", {"text": "no JSON"})
    assert [block.text for block in result.content if block.type == "text"] == ["an emoj\ufffd"]
    assert result.structured_content == {"n": None, "s": "\ufffd"}


@pytest.mark.parametrize("case", RAW)
async def test_a_result_that_is_almost_json_arrives_or_fails_immediately(
    case: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    results = {"number that is too large": "", "raw tab": "a\tb", "null as text": ""}
    async with run_source(write_command("malformed results"), tmp_path) as (_, client):
        await wait_for_tool(client, "echo")
        with anyio.fail_after(TIMEOUT):
            result = await client.call_tool("echo", {"text": case})
    text = "".join(block.text for block in result.content if block.type == "text")
    assert text == results[case] if case in results else "the server's response is malformed" in text
    assert result.structured_content == ({"n": None} if case == "number that is too large" else None)
    is_repaired = case in {"number that is too large", "raw tab"}
    assert ("numbers that JSON does not have became null" in caplog.text) == is_repaired


async def test_a_repeated_page_ends_the_list(tmp_path: Path) -> None:
    async with connect_gateway(tmp_path, {"plain": write_command("repeats its page")}) as client:
        await wait_for_tool(client, "plain__echo")
        (status,) = (await client.read_resource("bridge://status")).contents
        assert status.text.count("Two tools in source 'plain' are named 'plain__echo'") == 1  # type: ignore[union-attr]


async def test_a_response_that_is_too_long_is_an_error_of_the_call(tmp_path: Path) -> None:
    async with run_source(write_command("long line"), tmp_path) as (_, client):
        with anyio.fail_after(TIMEOUT):
            assert "larger than 32 MB" in await call_text(client, "echo", "long")
        assert await call_text(client, "echo") == "hello"


async def test_server_discover_is_sent_only_once(tmp_path: Path) -> None:
    async with run_source(write_command("ignores discover"), tmp_path) as (_, client):
        # The tool appears after the time limit of the probe.
        await wait_for_tool(client, "echo")
        await call_text(client, "echo", "crash")
        assert await call_text(client, "echo", "first method") == "initialize"


async def test_no_task_remains_after_the_connection(tmp_path: Path) -> None:
    before = asyncio.all_tasks()
    faults = ["", "crash at start", "hang at start", "endless line", "floods notifications"]
    servers = {f"s{number}": write_command(fault) for number, fault in enumerate(faults)}
    async with connect_gateway(tmp_path, servers, limits=SHORT) as client:
        await call_text(client, "s3__echo")
        await call_text(client, "s4__echo")
    assert asyncio.all_tasks() == before


async def test_invalid_messages_are_logged_less_and_less_often(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with run_source(write_command("garbage"), tmp_path) as (_, client):
        for _ in range(20):
            await call_text(client, "echo")
    lines = [item.getMessage() for item in caplog.records if "not a message" in item.getMessage()]
    assert 5 <= len(lines) <= 8
    assert lines[0].endswith(
        "sent something that is not a message, which was dropped (1 until now): it is not a JSON object"
    )


async def test_a_call_has_a_limited_number_of_open_questions(tmp_path: Path) -> None:
    asked, is_full = 0, anyio.Event()

    async def answer(*_: object) -> ElicitResult:
        nonlocal asked
        asked += 1
        if asked == 100:
            is_full.set()
        await is_full.wait()
        return ElicitResult(action="accept", content={})

    bridge = Bridge(None, [AttachedSource(source=build_source(write_command("asks a lot"), tmp_path))])
    async with connect(bridge, mode="legacy", elicitation_callback=answer) as client:
        assert await call_text(client, "echo") == "50"
        assert asked == 100
