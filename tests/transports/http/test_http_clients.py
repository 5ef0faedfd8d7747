"""The official client over both transports and in both eras."""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from mcp_bridge import CallContext, Image, ToolEntry, ToolError
from mcp_bridge._transports.http import event_stream
from tests.kits.constants import HTTP_HEADERS, STATELESS, TIMEOUT
from tests.kits.http.http_hosting import (
    HTTP_WAYS,
    IN_EVERY_HTTP_WAY,
    Gate,
    HttpWay,
    build_registry,
    make_entry,
    make_initialize,
    serve_http,
)
from tests.kits.waiting import wait_for_event

NUMBERS = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}


@IN_EVERY_HTTP_WAY
async def test_a_client_lists_and_calls(way: HttpWay) -> None:
    add = ToolEntry("add", "Add two numbers.", lambda data: data["a"] + data["b"], NUMBERS, {"type": "integer"})
    async with serve_http(build_registry(add)) as (base, _), way.connect(base) as client:
        assert (client.protocol_version == STATELESS) == (way.mode == STATELESS)
        (tool,) = (await client.list_tools()).tools
        assert (tool.name, tool.description) == ("add", "Add two numbers.")
        result = await client.call_tool("add", {"a": 2, "b": 3})
        assert result.is_error is not True
        assert result.content[0].text == "5"  # type: ignore[union-attr]


@pytest.mark.parametrize("way", [HTTP_WAYS[1], HTTP_WAYS[2]], ids=lambda way: f"{way.transport}-{way.mode}")
async def test_a_failing_tool_returns_an_error_result_and_the_connection_stays(way: HttpWay) -> None:
    def refuse(data: Any) -> str:
        raise ToolError("not today")

    def crash(data: Any) -> str:
        raise RuntimeError("the password is hunter2")

    tools = build_registry(make_entry("refuse", refuse), make_entry("crash", crash))
    async with serve_http(tools) as (base, _), way.connect(base) as client:
        await client.list_tools()
        result = await client.call_tool("refuse", {})
        assert result.is_error
        assert "not today" in result.content[0].text  # type: ignore[union-attr]
        crashed = await client.call_tool("crash", {})
        assert crashed.is_error
        assert "hunter2" not in str(crashed)
        with pytest.raises(MCPError) as unknown:
            await client.session.call_tool("nothing", {})
        assert unknown.value.error.code == -32602
        assert (await client.call_tool("refuse", {})).is_error


@IN_EVERY_HTTP_WAY
async def test_progress_arrives_in_order(way: HttpWay) -> None:
    async def count(data: Any, ctx: CallContext) -> str:
        for step in range(1, 4):
            await ctx.report_progress(step, total=3, message=f"step {step}")
        return "counted"

    progress_values: list[tuple[float, float | None, str | None]] = []

    async def record_progress(progress: float, total: float | None, message: str | None) -> None:
        progress_values.append((progress, total, message))

    async with serve_http(build_registry(make_entry("count", count))) as (base, _), way.connect(base) as client:
        result = await client.call_tool("count", {}, progress_callback=record_progress)
        assert result.content[0].text == "counted"  # type: ignore[union-attr]
        assert (await client.call_tool("count", {})).is_error is not True
    assert progress_values == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


@IN_EVERY_HTTP_WAY
async def test_a_call_that_the_client_cancels_stops_its_handler(way: HttpWay) -> None:
    gate = Gate()
    async with (
        serve_http(build_registry(make_entry("wait", gate), make_entry("other"))) as (base, app),
        way.connect(base) as client,
    ):
        await client.list_tools()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "wait", {})
            await wait_for_event(gate.begun)
            tasks.cancel_scope.cancel()
        await wait_for_event(gate.cancelled)
        assert (await client.call_tool("other", {})).content[0].text == "other"  # type: ignore[union-attr]
        assert await app.counter.wait_until_idle(TIMEOUT)


@IN_EVERY_HTTP_WAY
async def test_no_request_is_in_flight_after_its_client_has_disconnected(way: HttpWay) -> None:
    gate = Gate()
    async with serve_http(build_registry(make_entry("wait", gate), make_entry("other"))) as (base, app):
        async with anyio.create_task_group() as tasks:

            async def call_and_leave() -> None:
                async with way.connect(base) as client:
                    await client.call_tool("wait", {})

            tasks.start_soon(call_and_leave)
            await wait_for_event(gate.begun)
            tasks.cancel_scope.cancel()
        # In the handshake era over HTTP, a lost connection is no cancellation.
        if (way.transport, way.mode) == ("http", "legacy"):
            assert not gate.cancelled.is_set()
            gate.release.set()
        else:
            await wait_for_event(gate.cancelled)
        assert await app.counter.wait_until_idle(TIMEOUT)
        async with way.connect(base) as another:
            assert (await another.call_tool("other", {})).content[0].text == "other"  # type: ignore[union-attr]


async def test_a_handshake_session_that_is_deleted_stops_its_calls() -> None:
    gate = Gate()
    async with (
        serve_http(build_registry(make_entry("wait", gate))) as (base, app),
        httpx2.AsyncClient(timeout=TIMEOUT) as http,
    ):
        response = await http.post(f"{base}/mcp", json=make_initialize(), headers=HTTP_HEADERS)
        session = {**HTTP_HEADERS, "Mcp-Session-Id": response.headers["mcp-session-id"]}
        await http.post(f"{base}/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=session)
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "wait", "arguments": {}}}
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(http.post, f"{base}/mcp", json=call, headers=session))
            await wait_for_event(gate.begun)
            assert (await http.delete(f"{base}/mcp", headers=session)).status_code == 200
            await wait_for_event(gate.cancelled)
        assert await app.counter.wait_until_idle(TIMEOUT)
        assert (await http.post(f"{base}/mcp", json=call, headers=session)).status_code == 404


@IN_EVERY_HTTP_WAY
async def test_calls_of_one_client_run_concurrently(way: HttpWay) -> None:
    gate = Gate()
    answers: list[str] = []
    async with (
        serve_http(build_registry(make_entry("slow", gate), make_entry("fast"))) as (base, _),
        way.connect(base) as client,
    ):
        await client.list_tools()

        async def call(name: str) -> None:
            answers.append((await client.call_tool(name, {})).content[0].text)  # type: ignore[union-attr]

        with anyio.fail_after(TIMEOUT):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call, "slow")
                await gate.begun.wait()
                await call("fast")
                gate.release.set()
    assert answers == ["fast", "released"]


class Ear:
    """A message handler for list_changed."""

    def __init__(self) -> None:
        self.received = anyio.Event()

    async def __call__(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self.received.set()


@pytest.mark.parametrize("way", [way for way in HTTP_WAYS if way.mode == "legacy"], ids=lambda way: way.transport)
async def test_a_handshake_client_is_notified_of_changed_lists(way: HttpWay) -> None:
    registry, ear = build_registry(make_entry("old")), Ear()
    async with serve_http(registry) as (base, _), way.connect(base, message_handler=ear) as client:
        capability = client.server_capabilities.tools
        assert capability is not None
        assert capability.list_changed is True
        assert [tool.name for tool in (await client.list_tools()).tools] == ["old"]
        registry.register(make_entry("new"))
        if way.transport == "sse":
            await wait_for_event(ear.received)
        else:
            await _receive_over_get(registry, ear)
        assert {"new", "old"} <= {tool.name for tool in (await client.list_tools()).tools}


async def _receive_over_get(registry: Any, ear: Ear) -> None:
    """Change the tools until the client receives it. The SDK's client opens its GET stream without a notification."""
    with anyio.fail_after(TIMEOUT):
        number = 0
        while not ear.received.is_set():
            number += 1
            registry.register(make_entry(f"newer_{number}"))
            with anyio.move_on_after(0.05):
                await ear.received.wait()


@pytest.mark.parametrize("way", [way for way in HTTP_WAYS if way.mode != "legacy"], ids=lambda way: way.transport)
async def test_a_listening_stateless_client_is_notified_and_drops_its_cached_list(way: HttpWay) -> None:
    registry = build_registry(make_entry("old"))
    async with serve_http(registry) as (base, app), way.connect(base) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["old"]
        with anyio.fail_after(TIMEOUT):
            async with client.listen(tools_list_changed=True) as changes:
                registry.register(make_entry("new"))
                async for _ in changes:
                    break
                assert [tool.name for tool in (await client.list_tools()).tools] == ["new", "old"]
        if way.transport == "http":
            # A listen stream is not a call in flight.
            assert await app.counter.wait_until_idle(0)


@pytest.mark.parametrize("way", [way for way in HTTP_WAYS if way.mode != "legacy"], ids=lambda way: way.transport)
async def test_listeners_get_their_final_result_when_the_endpoint_ends_them(way: HttpWay) -> None:
    async with serve_http(build_registry(make_entry("old"))) as (base, app), way.connect(base) as client:
        with anyio.fail_after(TIMEOUT):
            async with client.listen(tools_list_changed=True) as changes:
                app.endpoint.close_subscriptions()
                # An abrupt end would raise SubscriptionLost.
                assert [change async for change in changes] == []


@pytest.mark.parametrize("way", HTTP_WAYS[:2], ids=lambda way: f"{way.transport}-{way.mode}")
async def test_a_result_above_the_event_limit_of_the_sdk_reaches_its_client(
    way: HttpWay, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A result after this time is sent as an event. On a busy machine, the screenshot could take longer.
    monkeypatch.setattr(event_stream, "OPENING_DELAY", TIMEOUT)
    image = Image(b"\x89PNG" + bytes(1_500_000))
    tools = build_registry(
        make_entry("screenshot", lambda data: image), make_entry("log", lambda data: "x" * 2_000_000)
    )
    async with serve_http(tools) as (base, _), way.connect(base) as client:
        screenshot = await client.call_tool("screenshot", {})
        assert len(screenshot.content[0].data) > 2_000_000  # type: ignore[union-attr]
        log = await client.call_tool("log", {})
        assert "This result was truncated" in log.content[1].text  # type: ignore[union-attr]


async def test_a_truncated_text_fits_in_an_event_after_progress() -> None:
    async def read_log(data: Any, ctx: CallContext) -> str:
        await ctx.report_progress(1)
        return "x" * 2_000_000

    async def ignore_progress(progress: float, total: float | None, message: str | None) -> None: ...

    async with (
        serve_http(build_registry(make_entry("log", read_log))) as (base, _),
        HTTP_WAYS[0].connect(base) as client,
    ):
        log = await client.call_tool("log", {}, progress_callback=ignore_progress)
        assert "This result was truncated" in log.content[1].text  # type: ignore[union-attr]
