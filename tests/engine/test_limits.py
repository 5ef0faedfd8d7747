"""How much one call, and all of them, may take."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bridge import CallContext, ToolCall, ToolEntry, ToolRegistry, ToolResult
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._engine.pipeline import ToolLimits
from mcp_bridge._json_schema.size_limits import SizeLimits
from mcp_bridge.middleware import Pipeline
from tests.kits.constants import TIMEOUT
from tests.kits.loops import BOTH_LOOPS


class Gate:
    """A tool with a counter of running calls. It blocks until it is released."""

    def __init__(self) -> None:
        self.inside = self.most = 0
        self.open = anyio.Event()

    async def __call__(self, data: Any) -> str:
        self.inside += 1
        self.most = max(self.most, self.inside)
        await self.open.wait()
        self.inside -= 1
        return "out"


def build_registry(pipeline: Pipeline, **tools: Any) -> ToolRegistry:
    registry = ToolRegistry(pipeline=pipeline)
    for name, handler in tools.items():
        registry.register(ToolEntry(name, "A tool.", handler))
    return registry


async def dispatch(registry: ToolRegistry, name: str, data: Any = None) -> ToolResult:
    return await registry.dispatch(ToolCall(id="1", name=name, arguments={} if data is None else data), RunningCall())


@asynccontextmanager
async def keep_calls_waiting(
    registry: ToolRegistry, name: str, count: int, gate: Gate
) -> AsyncIterator[list[ToolResult]]:
    """Start this many calls, open the gate after the block, and add their results to the list."""
    results: list[ToolResult] = []

    async def one() -> None:
        results.append(await dispatch(registry, name))

    with anyio.fail_after(TIMEOUT):
        async with anyio.create_task_group() as tasks:
            for _ in range(count):
                tasks.start_soon(one)
            await anyio.wait_all_tasks_blocked()
            yield results
            gate.open.set()


@BOTH_LOOPS
async def test_calls_beyond_the_limit_wait_in_turn_and_those_beyond_the_queue_are_rejected() -> None:
    gate = Gate()
    registry = build_registry(Pipeline(concurrency=2, queue=3), gate=gate)
    async with keep_calls_waiting(registry, "gate", 5, gate) as results:
        assert gate.inside == 2
        rejection = await dispatch(registry, "gate")
        assert (rejection.code, rejection.is_error) == ("overloaded", True)
        assert results == []
    assert [result.output for result in results] == ["out"] * 5
    assert gate.most == 2
    assert (await dispatch(registry, "gate")).output == "out"


async def test_a_tool_with_a_concurrency_limit_leaves_slots_for_the_others() -> None:
    gate = Gate()
    pipeline = Pipeline(concurrency=4, queue=1, tools={"slow_*": ToolLimits(concurrency=1)})
    registry = build_registry(pipeline, slow_one=gate, quick=lambda data: "quick")
    async with keep_calls_waiting(registry, "slow_one", 2, gate):
        assert gate.inside == 1
        assert (await dispatch(registry, "quick")).output == "quick"
        rejection = await dispatch(registry, "slow_one")
        assert rejection.code == "overloaded"
        assert "'slow_one'" in rejection.error_text


async def test_a_nested_call_needs_no_slot() -> None:
    async def outer(data: Any, ctx: CallContext) -> Any:
        return (await ctx.invoke("inner")).output

    registry = build_registry(Pipeline(concurrency=1, queue=0), outer=outer, inner=lambda data: "inner")
    with anyio.fail_after(TIMEOUT):
        assert (await dispatch(registry, "outer")).output == "inner"


@BOTH_LOOPS
async def test_a_call_that_is_cancelled_while_it_waits_leaves_the_queue() -> None:
    gate = Gate()
    registry = build_registry(Pipeline(concurrency=1, queue=1), gate=gate)
    async with keep_calls_waiting(registry, "gate", 1, gate):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(dispatch, registry, "gate"))
            await anyio.wait_all_tasks_blocked()
            assert (await dispatch(registry, "gate")).code == "overloaded"
            tasks.cancel_scope.cancel()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(dispatch, registry, "gate"))
            await anyio.wait_all_tasks_blocked()
            gate.open.set()


@BOTH_LOOPS
async def test_the_first_pattern_that_fits_sets_a_tools_time() -> None:
    pipeline = Pipeline(
        timeout=None, tools={"slow": ToolLimits(timeout=0.01), "s*": ToolLimits(timeout=TIMEOUT), "*": ToolLimits()}
    )
    registry = build_registry(pipeline, slow=make_handler(anyio.sleep_forever), swift=lambda data: 1)
    result = await dispatch(registry, "slow")
    assert result.code == "timeout"
    assert "0.01 seconds" in result.error_text
    assert (await dispatch(registry, "swift")).output == 1


def make_handler(wait: Any) -> Any:
    async def handler(data: Any) -> None:
        await wait()

    return handler


@pytest.mark.parametrize(
    ("most", "data", "words"),
    [
        (SizeLimits(size=10), {"a": "x" * 11}, "more than 10 characters"),
        (SizeLimits(size=10), {"k" * 11: 1}, "more than 10 characters"),
        (SizeLimits(depth=2), {"a": [[1]]}, "deeper than 2 levels"),
        (SizeLimits(nodes=5), {"a": [1, 2, 3, 4, 5]}, "more than 5 values"),
    ],
)
async def test_arguments_beyond_the_limits_are_rejected_before_anything_reads_them(
    most: SizeLimits, data: Any, words: str
) -> None:
    def never(data: Any) -> None:
        raise AssertionError("reached")

    result = await dispatch(build_registry(Pipeline(arguments=most), t=never), "t", data)
    assert result.code == "invalid_arguments"
    assert words in result.error_text


def test_a_very_deep_and_a_very_wide_argument_are_rejected_fast() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert SizeLimits().describe_excess(deep) == "nested deeper than 64 levels"
    assert SizeLimits().describe_excess([0] * 10_000_000) == "more than 100000 values"


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=20,
)


def count_depth(data: Any) -> int:
    inner = list(data.values()) if isinstance(data, dict) else data if isinstance(data, list) else []
    return max((1 + count_depth(subschema) for subschema in inner), default=0)


@given(json)
def test_the_depth_that_is_allowed_is_exactly_that(data: Any) -> None:
    depth = count_depth(data)
    assert SizeLimits(depth=depth).describe_excess(data) is None
    if depth:
        assert SizeLimits(depth=depth - 1).describe_excess(data) is not None
