"""One tool or client leaves a quarter of the slots and of the threads to the others."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from mcp_bridge import CallContext, ToolCall, ToolEntry, ToolRegistry, ToolResult
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._engine.pipeline import ToolLimits
from mcp_bridge.middleware import Pipeline
from tests.kits.constants import TIMEOUT
from tests.kits.loops import BOTH_LOOPS

pytestmark = BOTH_LOOPS


class Hanging:
    """Tools that hang until the block ends, with the number of running calls of each tool and of each client."""

    def __init__(self) -> None:
        self.running: Counter[str | None] = Counter()
        self.freed = threading.Event()
        self._lock = threading.Lock()

    def make_tool(self, name: str, *, is_async: bool) -> ToolEntry:
        async def hang(data: Any, ctx: CallContext) -> str:
            self._count(name, ctx)
            await anyio.sleep_forever()
            return ""

        def block(data: Any, ctx: CallContext) -> str:
            self._count(name, ctx)
            assert self.freed.wait(TIMEOUT)
            return ""

        return ToolEntry(name, "Hangs.", hang if is_async else block)

    def _count(self, name: str, ctx: CallContext) -> None:
        with self._lock:
            self.running.update({name: 1, ctx.client: 1})


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    tools = Hanging()
    yield tools
    tools.freed.set()


def make_registry(pipeline: Pipeline, *tools: ToolEntry) -> ToolRegistry:
    registry = ToolRegistry(pipeline=pipeline)
    for tool in (*tools, ToolEntry("quick", "Returns at once.", lambda data: "quick")):
        registry.register(tool)
    return registry


async def dispatch(registry: ToolRegistry, name: str, client: str | None = None) -> ToolResult:
    ctx = RunningCall()
    ctx.client = client
    return await registry.dispatch(ToolCall(id="1", name=name, arguments={}), ctx)


@asynccontextmanager
async def keep_calls_in_flight(registry: ToolRegistry, *calls: tuple[str, str | None]) -> AsyncIterator[None]:
    """Make calls of tools by clients, in this order, and cancel them after the block."""
    with anyio.fail_after(TIMEOUT):
        async with anyio.create_task_group() as tasks:
            for call in calls:
                tasks.start_soon(dispatch, registry, *call)
                await anyio.wait_all_tasks_blocked()
            yield
            tasks.cancel_scope.cancel()


async def wait_until_running(hanging: Hanging, key: str | None, count: int) -> None:
    """Wait until this many calls run in threads."""
    with anyio.fail_after(TIMEOUT):
        while hanging.running[key] < count:
            await checkpoint()


async def test_a_tool_has_at_most_three_quarters_of_the_slots(hanging: Hanging) -> None:
    registry = make_registry(Pipeline(concurrency=8), hanging.make_tool("hangs", is_async=True))
    async with keep_calls_in_flight(registry, *[("hangs", None)] * 20):
        assert hanging.running["hangs"] == 6
        assert (await dispatch(registry, "quick")).output == "quick"


async def test_a_client_has_at_most_three_quarters_of_the_slots_with_all_its_tools(hanging: Hanging) -> None:
    tools = [hanging.make_tool(name, is_async=True) for name in ("one", "two")]
    registry = make_registry(Pipeline(concurrency=8), *tools)
    async with keep_calls_in_flight(registry, *[("one", "ann"), ("two", "ann")] * 10):
        assert hanging.running["ann"] == 6
        assert (await dispatch(registry, "quick", "bob")).output == "quick"


async def test_a_limit_of_a_tool_does_not_raise_its_share(hanging: Hanging) -> None:
    limits = {"hangs": ToolLimits(concurrency=100)}
    registry = make_registry(Pipeline(concurrency=8, tools=limits), hanging.make_tool("hangs", is_async=True))
    async with keep_calls_in_flight(registry, *[("hangs", None)] * 20):
        assert hanging.running["hangs"] == 6


async def test_a_tool_has_at_most_three_quarters_of_the_threads(hanging: Hanging) -> None:
    registry = make_registry(Pipeline(threads=4), hanging.make_tool("blocks", is_async=False))
    async with keep_calls_in_flight(registry, *[("blocks", None)] * 10):
        await wait_until_running(hanging, "blocks", 3)
        assert (await dispatch(registry, "quick")).output == "quick"
        assert hanging.running["blocks"] == 3
        hanging.freed.set()


async def test_a_client_has_at_most_three_quarters_of_the_threads(hanging: Hanging) -> None:
    tools = [hanging.make_tool(name, is_async=False) for name in ("one", "two")]
    registry = make_registry(Pipeline(threads=4), *tools)
    async with keep_calls_in_flight(registry, *[("one", "ann"), ("two", "ann")] * 5):
        await wait_until_running(hanging, "ann", 3)
        assert (await dispatch(registry, "quick", "bob")).output == "quick"
        assert hanging.running["ann"] == 3
        hanging.freed.set()


async def test_threads_count_against_the_client_of_the_outer_call(hanging: Hanging) -> None:
    async def outer(data: Any, ctx: CallContext) -> Any:
        return (await ctx.invoke("blocks")).output

    registry = make_registry(
        Pipeline(threads=4), ToolEntry("outer", "Calls.", outer), hanging.make_tool("blocks", is_async=False)
    )
    async with keep_calls_in_flight(registry, *[("outer", "ann")] * 10):
        await wait_until_running(hanging, "ann", 3)
        assert (await dispatch(registry, "quick", "bob")).output == "quick"
        hanging.freed.set()


async def test_calls_of_a_tool_whose_threads_never_end_are_rejected_while_others_continue(hanging: Hanging) -> None:
    limits = {"blocks": ToolLimits(timeout=0.05)}
    registry = make_registry(Pipeline(threads=4, tools=limits), hanging.make_tool("blocks", is_async=False))
    for _ in range(3):
        assert (await dispatch(registry, "blocks")).code == "timeout"
    rejection = await dispatch(registry, "blocks")
    assert rejection.code == "overloaded"
    assert "blocks (3)" in rejection.error_text
    assert (await dispatch(registry, "quick")).output == "quick"


async def test_the_wait_for_a_slot_does_not_count_towards_the_timeout() -> None:
    deadlines: list[float | None] = []
    free = anyio.Event()

    async def hold(data: Any) -> None:
        await free.wait()

    async def look(data: Any, ctx: CallContext) -> None:
        deadlines.append(ctx.deadline)

    pipeline = Pipeline(concurrency=1, timeout=TIMEOUT)
    registry = make_registry(pipeline, ToolEntry("hold", "Holds.", hold), ToolEntry("look", "Looks.", look))
    async with keep_calls_in_flight(registry, ("hold", None), ("look", None)):
        release_order = anyio.current_time()
        free.set()
        await anyio.wait_all_tasks_blocked()
        assert deadlines[0] is not None
        assert deadlines[0] >= release_order + TIMEOUT


async def test_the_wait_for_a_thread_does_not_count_towards_the_timeout(hanging: Hanging) -> None:
    deadlines: list[float | None] = []

    def look(data: Any, ctx: CallContext) -> None:
        deadlines.append(ctx.deadline)

    pipeline = Pipeline(threads=1, timeout=TIMEOUT)
    registry = make_registry(pipeline, hanging.make_tool("blocks", is_async=False), ToolEntry("look", "Looks.", look))
    async with keep_calls_in_flight(registry, ("blocks", None), ("look", None)):
        release_order = anyio.current_time()
        hanging.freed.set()
        with anyio.fail_after(TIMEOUT):
            while not deadlines:
                await checkpoint()
        assert deadlines[0] is not None
        assert deadlines[0] >= release_order + TIMEOUT


async def test_a_call_that_waits_for_a_slot_longer_than_its_timeout_is_rejected_with_advice(hanging: Hanging) -> None:
    limits = {"quick": ToolLimits(timeout=0.05)}
    pipeline = Pipeline(concurrency=1, tools=limits)
    registry = make_registry(pipeline, hanging.make_tool("hangs", is_async=True))
    async with keep_calls_in_flight(registry, ("hangs", None)):
        rejection = await dispatch(registry, "quick")
        assert rejection.code == "overloaded"
        assert "Retry later." in rejection.error_text


async def test_a_call_that_waits_for_a_thread_longer_than_its_timeout_is_rejected_with_advice(hanging: Hanging) -> None:
    limits = {"quick": ToolLimits(timeout=0.05)}
    registry = make_registry(Pipeline(threads=1, tools=limits), hanging.make_tool("blocks", is_async=False))
    async with keep_calls_in_flight(registry, ("blocks", None)):
        await wait_until_running(hanging, "blocks", 1)
        rejection = await dispatch(registry, "quick")
        assert rejection.code == "overloaded"
        assert "Retry later." in rejection.error_text
        hanging.freed.set()


async def test_nested_synchronous_calls_of_one_client_do_not_wait_for_its_other_calls() -> None:
    def run_outer(data: Any, ctx: CallContext) -> str:
        return str(anyio.from_thread.run(ctx.invoke, "quick", {}).output)

    registry = make_registry(Pipeline(threads=4), ToolEntry("outer", "Calls another.", run_outer))
    results: list[ToolResult] = []

    async def call_outer() -> None:
        results.append(await dispatch(registry, "outer", "a client"))

    with anyio.fail_after(TIMEOUT):
        async with anyio.create_task_group() as tasks:
            for _ in range(12):
                tasks.start_soon(call_outer)
    assert [result.output for result in results] == ["quick"] * 12
