"""Calls through the endpoint: an exception in one tool does not affect another call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from mcp_bridge import CallContext, ToolEntry, ToolRegistry
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._server import responses
from mcp_bridge._server.endpoint import Endpoint
from mcp_bridge._transports.memory import make_client as client_of
from mcp_bridge.testing import connect
from tests.client.stdio_client import serve_over_pipes
from tests.kits.constants import TIMEOUT
from tests.kits.loops import BOTH_LOOPS

MODES = pytest.mark.parametrize("mode", ["legacy", "auto"])
NOTHING: dict[str, Any] = {"type": "object"}


class Rude(BaseException):
    """Not an Exception."""


@pytest.mark.parametrize(
    ("handler_type", "make", "stateless"),
    [
        ("async", lambda: SystemExit(3), False),
        ("async", lambda: BaseExceptionGroup("mixed", [asyncio.CancelledError(), ValueError()]), True),
        ("sync", lambda: KeyboardInterrupt(), True),
        ("sync", lambda: Rude("rude"), False),
    ],
    ids=["SystemExit", "a group with a cancellation", "KeyboardInterrupt", "Rude"],
)
async def test_other_calls_succeed_whatever_a_tool_raises(
    handler_type: str, make: Callable[[], BaseException], stateless: bool
) -> None:
    starts, release = anyio.Event(), anyio.Event()

    async def neighbour(data: Any) -> str:
        starts.set()
        await release.wait()
        return "still here"

    async def awaited(data: Any) -> None:
        raise make()

    def threaded(data: Any) -> None:
        raise make()

    registry = ToolRegistry()
    registry.register(ToolEntry("neighbour", "Waits.", neighbour, NOTHING))
    registry.register(ToolEntry("rude", "Raises.", awaited if handler_type == "async" else threaded, NOTHING))
    async with serve_over_pipes(registry, stateless=stateless) as client:
        waiting = await client.send_call("neighbour")
        with anyio.fail_after(TIMEOUT):
            await starts.wait()
        failure = await client.receive_response(await client.send_call("rude"))
        assert failure["result"]["isError"] is True
        assert "reference" in failure["result"]["content"][0]["text"]
        release.set()
        assert (await client.receive_response(waiting))["result"]["content"][0]["text"] == "still here"
        assert "error" not in await client.request("tools/list")


@BOTH_LOOPS
async def test_only_the_call_of_a_tool_that_cancels_its_scope_fails(stateless: bool) -> None:
    async def gives_up(data: Any) -> str:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await anyio.lowlevel.checkpoint()
        return "gave up, on its own terms"

    async def group(data: Any) -> str:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.sleep_forever)
            raise SystemExit(1)

    registry = ToolRegistry()
    registry.register(ToolEntry("gives_up", "Cancels.", gives_up, NOTHING))
    registry.register(ToolEntry("group", "Raises.", group, NOTHING))
    async with serve_over_pipes(registry, stateless=stateless) as client:
        answer = await client.receive_response(await client.send_call("gives_up"))
        assert answer["result"]["content"][0]["text"] == "gave up, on its own terms"
        assert (await client.receive_response(await client.send_call("group")))["result"]["isError"] is True


async def test_a_call_succeeds_while_another_one_cancels_its_task(stateless: bool) -> None:
    async def suicidal(data: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    registry = ToolRegistry()
    registry.register(ToolEntry("suicidal", "Cancels its own task.", suicidal, NOTHING))
    registry.register(ToolEntry("quick", "Answers.", lambda data: "quick", NOTHING))
    async with serve_over_pipes(registry, stateless=stateless) as client:
        first = await client.send_call("suicidal")
        assert (await client.receive_response(await client.send_call("quick")))["result"]["content"][0][
            "text"
        ] == "quick"
        assert (await client.receive_response(first))["result"]["isError"] is True


@BOTH_LOOPS
@MODES
async def test_a_cancelled_client_call_stops_the_handler(mode: str) -> None:
    starts, stops = anyio.Event(), anyio.Event()

    async def slow(data: Any) -> None:
        starts.set()
        try:
            await anyio.sleep_forever()
        finally:
            stops.set()

    registry = ToolRegistry()
    registry.register(ToolEntry("slow", "Waits.", slow, NOTHING))
    registry.register(ToolEntry("quick", "Answers.", lambda data: "quick", NOTHING))
    async with connect(registry, mode=mode) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(client.call_tool, "slow", {})
        with anyio.fail_after(TIMEOUT):
            await starts.wait()
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await stops.wait()
                assert not (await client.call_tool("quick", {})).is_error


@MODES
async def test_progress_reaches_the_callers_callback_and_grows(mode: str) -> None:
    async def work(data: Any, ctx: CallContext) -> str:
        for value in (10, 5, 20, 20, 30):
            await ctx.report_progress(value, 30)
        return "done"

    observations: list[float] = []
    last = anyio.Event()

    async def record_progress(progress: float, total: float | None, message: str | None) -> None:
        observations.append(progress)
        if progress == total:
            last.set()

    registry = ToolRegistry()
    registry.register(ToolEntry("work", "Works.", work, NOTHING))
    async with connect(registry, mode=mode) as client:
        await client.call_tool("work", {}, progress_callback=record_progress)
        with anyio.fail_after(TIMEOUT):
            await last.wait()
    assert observations == [10, 20, 30]


@MODES
async def test_a_tool_sees_who_calls_it_and_in_which_era(mode: str) -> None:
    observations: dict[str, Any] = {}

    async def look(data: Any, ctx: CallContext) -> str:
        observations.update(version=ctx.protocol_version, id=ctx.request_id, tools=[tool.name for tool in ctx.tools()])
        return "seen"

    registry = ToolRegistry()
    registry.register(ToolEntry("look", "Looks.", look, NOTHING))
    async with connect(registry, mode=mode) as client:
        await client.call_tool("look", {})
        assert observations["version"] == client.protocol_version
    assert observations["id"]
    assert observations["tools"] == ["look"]


async def test_a_missing_wrapped_input_is_a_result_and_an_unknown_tool_an_error() -> None:
    registry = ToolRegistry()
    registry.register(ToolEntry("double", "Doubles a number.", lambda number: number * 2, {"type": "number"}))
    async with connect(registry) as client:
        assert (await client.call_tool("double", {})).is_error
        assert not (await client.call_tool("double", {"input": 2})).is_error
        with pytest.raises(MCPError) as caught:
            await client.call_tool("triple", {})
        assert caught.value.error.code == -32602


async def test_a_tool_that_is_removed_between_look_up_and_call_is_unknown() -> None:
    class Forgetful(ToolRegistry):
        def get_prepared(self, name: str) -> None:
            return None

    registry = Forgetful()
    registry.register(ToolEntry("here", "Is here.", lambda data: 1, NOTHING))
    async with connect(registry) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("here", {})
        assert (caught.value.error.code, caught.value.error.data) == (-32602, {"name": "here"})


async def test_a_first_request_waits_for_sources_that_are_starting() -> None:
    registry, started = ToolRegistry(), anyio.Event()
    names: list[str] = []
    async with client_of(Endpoint(registry, started=started)) as client:

        async def look() -> None:
            names.extend(tool.name for tool in (await client.list_tools()).tools)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(look)
            await anyio.wait_all_tasks_blocked()
            assert names == []
            registry.register(ToolEntry("late", "Comes late.", lambda data: 1, NOTHING))
            started.set()
    assert names == ["late"]


async def test_a_source_that_never_starts_does_not_delay_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(responses, "READY_TIMEOUT", 0.01)
    registry = ToolRegistry()
    registry.register(ToolEntry("ready", "Is ready.", lambda data: "yes", NOTHING))
    async with client_of(Endpoint(registry, started=anyio.Event())) as client:
        assert not (await client.call_tool("ready", {})).is_error


async def test_one_endpoint_serves_clients_of_both_eras_at_once() -> None:
    registry = ToolRegistry()
    registry.register(ToolEntry("quick", "Answers.", lambda data: "quick", NOTHING))
    endpoint = Bridge(registry).endpoint
    async with Bridge(registry).run_sources():
        endpoint = Endpoint(registry)
        async with client_of(endpoint, mode="legacy") as old, client_of(endpoint) as new:
            for client in (old, new):
                assert not (await client.call_tool("quick", {})).is_error
            assert old.protocol_version != new.protocol_version


@pytest.mark.parametrize("version", [True, False], ids=["version", "method"])
async def test_an_error_does_not_repeat_megabytes_of_a_request(version: bool) -> None:
    async with serve_over_pipes(ToolRegistry(), stateless=True) as client:
        long = "x" * 1_000_000
        if version:
            number = await client.send_request("tools/list", meta={"io.modelcontextprotocol/protocolVersion": long})
        else:
            number = await client.send_request(long)
        error = (await client.receive_response(number))["error"]
        assert len(str(error)) < 2000
