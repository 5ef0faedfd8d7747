"""The services of the context for a tool: log messages, progress, resources, and the state of its session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client

from mcp_bridge import CallContext, ToolError, ToolRegistry, resource, tool
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._contracts.errors import Denied
from mcp_bridge._contracts.identity import Identity
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._storage.stores.memory import MemoryStore
from mcp_bridge._transports.memory import make_client
from mcp_bridge.errors import ResourceNotFound
from mcp_bridge.middleware import Pipeline, Stage
from mcp_bridge.serving import State
from mcp_bridge.testing import connect
from tests.kits.isolation.isolation_kit import build_bridge

ERAS = pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])


def get_text(result: Any) -> str:
    assert not result.is_error, result
    return str(result.content[0].text)


@pytest.mark.filterwarnings("ignore:The logging capability")
async def test_each_level_of_the_log_has_its_method() -> None:
    registry = ToolRegistry()
    entries: list[tuple[str, Any]] = []

    @tool(registry=registry)
    async def work(ctx: CallContext) -> None:
        await ctx.debug("starting")
        await ctx.info("starting", {"step": 1})
        await ctx.warning("slow")
        await ctx.error("failed")

    async def record(params: Any) -> None:
        entries.append((params.level, params.data))

    async with connect(registry, mode="legacy", logging_callback=record) as client:
        await client.set_logging_level("debug")
        await client.call_tool("work", {})
    assert entries == [
        ("debug", "starting"),
        ("info", {"message": "starting", "data": {"step": 1}}),
        ("warning", "slow"),
        ("error", "failed"),
    ]


async def test_report_progress_is_another_name_of_progress() -> None:
    registry = ToolRegistry()
    reports: list[Any] = []

    @tool(registry=registry)
    async def work(ctx: CallContext) -> None:
        await ctx.report_progress(1, 2, "halfway")

    async def record(*report: Any) -> None:
        reports.append(report)

    async with connect(registry) as client:
        await client.call_tool("work", {}, progress_callback=record)
    assert reports == [(1, 2, "halfway")]


@ERAS
async def test_a_tool_reads_resources_and_templates(mode: str) -> None:
    registry = ToolRegistry()

    @resource("notes://today", mime_type="text/markdown", registry=registry)
    def today() -> str:
        return "# Today"

    @resource("notes://{day}", registry=registry)
    def of_day(day: str) -> dict[str, str]:
        return {"day": day}

    @tool(registry=registry)
    async def read(uri: str, ctx: CallContext) -> list[Any]:
        return [[item.uri, item.content, item.mime_type] for item in await ctx.read_resource(uri)]

    async with connect(registry, mode=mode) as client:
        assert get_text(await client.call_tool("read", {"uri": "notes://today"})) == (
            '[["notes://today","# Today","text/markdown"]]'
        )
        assert "monday" in get_text(await client.call_tool("read", {"uri": "notes://monday"}))
        missing = await client.call_tool("read", {"uri": "other://thing"})
    assert missing.is_error
    assert "Resource not found: other://thing" in missing.content[0].text


async def test_a_resource_that_cannot_be_read_raises_its_own_error() -> None:
    registry = ToolRegistry()

    @resource("notes://today", registry=registry)
    def today() -> str:
        raise ToolError("The notes are locked.", code="locked")

    caught: list[ToolError | ResourceNotFound] = []

    @tool(registry=registry)
    async def read(ctx: CallContext) -> None:
        for uri in ("notes://today", "notes://none"):
            try:
                await ctx.read_resource(uri)
            except (ToolError, ResourceNotFound) as error:
                caught.append(error)

    async with connect(registry) as client:
        await client.call_tool("read", {})
    assert [(error.code, error.message) for error in caught] == [
        ("locked", "The notes are locked."),
        ("resource_not_found", "Resource not found: notes://none"),
    ]


async def test_resources_that_a_tool_reads_stay_under_the_policy() -> None:
    class NoNotes:
        stage = Stage.DECIDE

        async def __call__(self, call: Any, ctx: Any, call_next: Any) -> Any:
            if call.kind == "resource":
                raise Denied("Notes are private.")
            return await call_next(call, ctx)

    registry = ToolRegistry(pipeline=Pipeline([NoNotes()]))

    @resource("notes://today", registry=registry)
    def today() -> str:
        return "secret"

    @tool(registry=registry)
    async def read(ctx: CallContext) -> str:
        return str((await ctx.read_resource("notes://today"))[0].content)

    async with connect(registry) as client:
        result = await client.call_tool("read", {})
    assert result.is_error
    assert "Notes are private." in result.content[0].text


def make_counter() -> ToolRegistry:
    registry = ToolRegistry()

    @tool(registry=registry)
    async def count(ctx: CallContext) -> int:
        number: int = await ctx.get_state("number", 0) + 1
        await ctx.set_state("number", number)
        return number

    @tool(registry=registry)
    async def forget(ctx: CallContext) -> None:
        await ctx.delete_state("number")

    return registry


@asynccontextmanager
async def connect_two_clients(registry: ToolRegistry, mode: str) -> AsyncIterator[tuple[Client, Client]]:
    bridge = Bridge(registry)
    async with (
        connect(bridge, mode=mode) as first,
        make_client(bridge.endpoint, mode=mode) as second,
    ):
        yield first, second


async def test_each_session_has_a_separate_state() -> None:
    async with connect_two_clients(make_counter(), "legacy") as (first, second):
        assert get_text(await first.call_tool("count", {})) == "1"
        assert get_text(await first.call_tool("count", {})) == "2"
        assert get_text(await second.call_tool("count", {})) == "1"
        await first.call_tool("forget", {})
        assert get_text(await first.call_tool("count", {})) == "1"


async def test_large_results_do_not_evict_the_state_of_sessions() -> None:
    registry = make_counter()

    @registry.tool
    def write(pages: int) -> str:
        return "x" * 1000 * pages

    state = State(store=MemoryStore(max_bytes=20_000))
    async with connect(Bridge(registry, identity=Identity(result=100), state=state), mode="legacy") as client:
        await client.call_tool("count", {})
        for _ in range(20):
            await client.call_tool("write", {"pages": 5})
        assert get_text(await client.call_tool("count", {})) == "2"


async def test_clients_without_a_handshake_choose_their_session_by_name() -> None:
    first_meta = {"mcp-bridge/session": "mine"}
    async with connect_two_clients(make_counter(), "2026-07-28") as (first, second):
        assert get_text(await first.call_tool("count", {}, meta=first_meta)) == "1"
        assert get_text(await second.call_tool("count", {}, meta=first_meta)) == "2"
        second_meta = {"mcp-bridge/session": "mine/n"}
        assert get_text(await first.call_tool("count", {}, meta=second_meta)) == "1"


async def test_nested_calls_share_the_state_of_a_call_without_a_session() -> None:
    registry = make_counter()

    @tool(registry=registry)
    async def twice(ctx: CallContext) -> int:
        await ctx.invoke("count")
        return int((await ctx.invoke("count")).output)

    assert (await registry.ainvoke("twice", {})).data == 2
    assert (await registry.ainvoke("twice", {})).data == 2


@pytest.mark.parametrize(
    ("value", "error", "problem"),
    [
        (object(), TypeError, "the state 'k' must be a JSON value"),
        ("x" * 1024 * 1024, ValueError, "the state 'k' has 1048578 bytes; the limit is 1048576"),
    ],
)
async def test_state_is_json_of_limited_size(value: Any, error: type[Exception], problem: str) -> None:
    with pytest.raises(error, match=problem):
        await RunningCall().set_state("k", value)


ISOLATED = """
from mcp_bridge import CallContext, resource, tool

@resource("notes://today")
def today() -> str:
    return "# Today"

@tool
async def work(ctx: CallContext) -> str:
    number = await ctx.get_state("number", 0) + 1
    await ctx.set_state("number", number)
    return f"{number} {(await ctx.read_resource('notes://today'))[0].content}"

@tool
async def peek(ctx: CallContext) -> str:
    return str(await ctx.get_state("number"))

@tool
async def store_object(ctx: CallContext) -> None:
    await ctx.set_state("number", object())
"""


async def test_tools_in_worker_processes_have_the_same_services(tmp_path: Path) -> None:
    async with connect(build_bridge(tmp_path, "process", tools=ISOLATED), mode="legacy") as client:
        assert get_text(await client.call_tool("work", {})) == "1 # Today"
        assert get_text(await client.call_tool("work", {})) == "2 # Today"
        assert (await client.call_tool("store_object", {})).is_error


async def test_isolated_tools_reach_no_state_of_others_and_only_the_resources_that_are_allowed(tmp_path: Path) -> None:
    isolation = {"tools": ["work"], "invokes": []}
    async with connect(build_bridge(tmp_path, isolation, tools=ISOLATED), mode="legacy") as client:
        rejected = await client.call_tool("work", {})
        assert rejected.is_error
        assert "cannot be read from this isolated tool" in rejected.content[0].text
        assert get_text(await client.call_tool("peek", {})) == "None"
