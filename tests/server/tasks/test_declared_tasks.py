"""Tools declare how their calls become tasks: `@tool(tasks=...)`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_bridge import CallContext, ToolEntry, ToolRegistry, tool, tool_use
from mcp_bridge._app.bridge import AttachedSource, Bridge
from mcp_bridge._contracts.identity import Identity
from mcp_bridge._contracts.listing import SearchPolicy, ToolListing
from mcp_bridge._contracts.source import Offer, Source
from mcp_bridge._contracts.state import State
from mcp_bridge.tasks import TaskOptions, ToolTasks
from tests.client.stdio_client import StdioClient
from tests.kits.constants import TIMEOUT
from tests.kits.isolation.isolation_kit import build_bridge
from tests.kits.questions.asking_kit import get_text, make_bridge, serve_client
from tests.kits.questions.task_kit import TASK_CAPABILITIES, create_task, fetch_task

LATE = TaskOptions(after=TIMEOUT, poll=0.01)
REQUIRED = ToolTasks(mode="required")


async def call(client: StdioClient, name: str, /, **arguments: Any) -> str:
    """Return the outcome of a call: `task`, `complete`, or the code of its error."""
    answer = await client.request("tools/call", {"name": name, "arguments": arguments})
    return str(answer["result"]["resultType"] if "result" in answer else answer["error"]["code"])


def register_with_decorator(registry: ToolRegistry, tasks: Any) -> None:
    @registry.tool(tasks=tasks)
    def work() -> str:
        return "done"


def register_with_schema(registry: ToolRegistry, tasks: Any) -> None:
    @tool(registry=registry, input_schema={"type": "object"}, tasks=tasks)
    def work(data: Any) -> str:
        return "done"


def register_with_tool_use(registry: ToolRegistry, tasks: Any) -> None:
    @tool_use.tool("work", registry=registry, tasks=tasks)
    def work(data: Any) -> str:
        return "done"


def register_entry(registry: ToolRegistry, tasks: Any) -> None:
    registry.register(ToolEntry("work", "", lambda data: "done", {"type": "object"}, tasks=tasks))


@pytest.mark.parametrize(
    "register", [register_with_decorator, register_with_schema, register_with_tool_use, register_entry]
)
async def test_a_declaration_decides_whether_a_call_becomes_a_task(
    register: Callable[[ToolRegistry, Any], None],
) -> None:
    for tasks, able, unable in (
        (None, "complete", "complete"),
        (ToolTasks(after=0), "task", "complete"),
        (ToolTasks(mode="forbidden", after=0), "complete", "complete"),
        (REQUIRED, "task", "-32021"),
    ):
        registry = ToolRegistry()
        register(registry, tasks)
        async with serve_client(make_bridge(registry, tasks=LATE), capabilities=TASK_CAPABILITIES) as client:
            assert await call(client, "work") == able
            client.capabilities = {}
            assert await call(client, "work") == unable


async def test_the_mode_alone_can_be_declared() -> None:
    registry = ToolRegistry()
    register_with_decorator(registry, "required")
    async with serve_client(make_bridge(registry, tasks=LATE), capabilities=TASK_CAPABILITIES) as client:
        assert await call(client, "work") == "task"


@pytest.mark.parametrize(
    ("tasks", "problem"),
    [
        ("always", "tasks: expected forbidden, optional, required or ToolTasks, got 'always'"),
        (ToolTasks(retries=-1), "tasks: retries: expected a number of at least 0, got -1"),
        (ToolTasks(after=float("inf")), "tasks: after: expected a number of at least 0, got inf"),
    ],
)
def test_an_invalid_declaration_is_an_error(tasks: Any, problem: str) -> None:
    for declare in (tool, tool_use.tool):
        with pytest.raises(ValueError, match="tasks") as caught:
            declare("work", tasks=tasks)
        assert str(caught.value) == problem


async def test_each_option_in_the_settings_takes_precedence() -> None:
    registry = ToolRegistry()

    @registry.tool(tasks=ToolTasks(mode="required", timeout=0.2))
    async def slow() -> str:
        await anyio.sleep_forever()

    @registry.tool(tasks="required")
    def quick() -> str:
        return "done"

    options = LATE._replace(tools={"slow": ToolTasks(after=TIMEOUT), "quick": ToolTasks(mode="forbidden")})
    async with serve_client(make_bridge(registry, tasks=options), capabilities=TASK_CAPABILITIES) as client:
        # The call reaches its timeout before it becomes a task.
        assert await call(client, "slow") == "complete"
        assert await call(client, "quick") == "complete"
        client.capabilities = {}
        # The tool keeps its mode.
        assert await call(client, "slow") == "-32021"
        assert await call(client, "quick") == "complete"


async def test_a_declaration_holds_for_calls_through_call_tool() -> None:
    registry = ToolRegistry()
    register_with_decorator(registry, REQUIRED)
    listing = ToolListing(search=SearchPolicy(above=0))
    bridge = Bridge(registry, identity=Identity(listing=listing), state=State(tasks=LATE))
    async with serve_client(bridge, capabilities=TASK_CAPABILITIES) as client:
        assert await call(client, "call_tool", name="work") == "task"
        assert await call(client, "call_tool", name="unknown") == "complete"
        client.capabilities = {}
        assert await call(client, "call_tool", name="work") == "-32021"


class SlowSource(Source):
    """A source that publishes its tool when `release` is set."""

    name = "slow"

    def __init__(self, entry: ToolEntry) -> None:
        self.entry = entry
        self.release = anyio.Event()

    async def run(self, publish: Any) -> None:
        await self.release.wait()
        publish(Offer(tools=[self.entry]))


async def test_a_call_that_arrives_before_its_tool_is_published_waits_for_the_declaration() -> None:
    registry = ToolRegistry()
    register_with_decorator(registry, REQUIRED)
    source = SlowSource(registry.list()[0])
    bridge = Bridge(sources=[AttachedSource(source=source)], state=State(tasks=LATE))
    async with serve_client(bridge, capabilities=TASK_CAPABILITIES, waits_for_sources=False) as client:
        number = await client.send_call("work")
        # The server handles messages in order, so it has started the call once it responds to this request.
        await client.get_error("tasks/get", {"taskId": "unknown-task"})
        source.release.set()
        assert (await client.receive_response(number))["result"]["resultType"] == "task"


TOOLS = """
from mcp_bridge import CallContext, tool
from mcp_bridge.tasks import ToolTasks

@tool(tasks=ToolTasks(mode="required", retries=1, backoff=0))
def work(ctx: CallContext) -> list[object]:
    "Fail in the first attempt."
    if ctx.attempt == 1:
        raise RuntimeError(f"with the key {ctx.idempotency_key}")
    return [ctx.attempt, ctx.idempotency_key]
"""


async def test_tools_in_worker_processes_declare_tasks_too_and_know_their_attempt(tmp_path: Path) -> None:
    bridge = build_bridge(tmp_path, "process", tools=TOOLS, tasks={"after": 60})
    async with serve_client(bridge, capabilities=TASK_CAPABILITIES) as client:
        attempt, key = (await fetch_task(client, await create_task(client, "work")))["result"]["structuredContent"]
        assert attempt == 2
        assert len(key) == 64


async def test_a_tool_that_requires_tasks_runs_without_them_where_they_are_not_enabled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry = ToolRegistry()
    register_with_decorator(registry, REQUIRED)
    source = SlowSource(registry.list()[0])
    source.release.set()
    for bridge in (Bridge(registry), Bridge(sources=[AttachedSource(source=source)])):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            async with serve_client(bridge, capabilities=TASK_CAPABILITIES) as client:
                assert get_text((await client.request("tools/call", {"name": "work"}))["result"]) == "done"
        assert [record.getMessage() for record in caplog.records] == [
            "tool 'work' requires tasks, which are not enabled, so its calls are ordinary ones. "
            "Write `tasks: {}` in the settings"
        ]


async def test_a_call_that_is_no_task_is_the_first_attempt() -> None:
    registry = ToolRegistry()

    @registry.tool
    def work(ctx: CallContext) -> list[object]:
        return [ctx.attempt, ctx.idempotency_key]

    async with serve_client(make_bridge(registry)) as client:
        result = (await client.request("tools/call", {"name": "work"}))["result"]
        assert result["structuredContent"] == [1, None]
