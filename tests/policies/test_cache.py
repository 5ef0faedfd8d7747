"""`cache`: the cached results, their principals and their expiry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall, ToolEntry
from mcp_bridge._engine.pipeline import Pipeline
from mcp_bridge._engine.registry import ToolRegistry
from mcp_bridge._policies.cache import MAX_SIZE, CachePolicy
from mcp_bridge.testing import connect
from tests.kits.constants import TIMEOUT
from tests.kits.policies.policies_kit import build_bridge, call, open_tools

READS = {"readOnlyHint": True}
TOOLS = '''
from mcp_bridge import Text, ToolError

READS = {"readOnlyHint": True}
runs = []


@tool(annotations=READS)
def look(key: str = "") -> dict:
    """Look."""
    runs.append(key)
    return {"run": len(runs), "items": [key]}


@tool(annotations=READS)
def show():
    """Return content."""
    runs.append("")
    return [Text(f"run {len(runs)}"), b"data"]


@tool
def change() -> int:
    """Change something."""
    runs.append("")
    return len(runs)


@tool(annotations=READS)
def fail() -> int:
    """Fail at first."""
    runs.append("")
    if len(runs) == 1:
        raise ToolError("not yet")
    return len(runs)


@tool(annotations=READS)
async def report(ctx: CallContext) -> int:
    """Report progress."""
    runs.append("")
    await ctx.report_progress(1)
    return len(runs)


@tool(annotations=READS)
async def log(ctx: CallContext) -> int:
    """Log."""
    runs.append("")
    await ctx.info("hello")
    return len(runs)


@tool(annotations=READS)
async def ask(ctx: CallContext) -> int:
    """Ask."""
    runs.append("")
    await ctx.ask("Who?", fallback=None)
    return len(runs)


@tool(annotations=READS)
async def count(ctx: CallContext) -> int:
    """Use the state of the session."""
    runs.append("")
    await ctx.set_state("runs", len(runs))
    return len(runs)


@tool(annotations=READS)
async def pass_on(ctx: CallContext, name: str) -> int:
    """Call another tool."""
    return (await ctx.invoke(name)).output
'''


async def test_equal_arguments_in_any_order_return_the_cached_result(tmp_path: Path) -> None:
    async with open_tools(tmp_path, TOOLS, "cache") as bridge:
        first = await call(bridge, "look", key="a")
        first.output["items"].append("changed by who received it")
        assert (await call(bridge, "look", key="a")).output == {"run": 1, "items": ["a"]}
        assert (await call(bridge, "look", key="b")).output["run"] == 2
        assert [(await call(bridge, "show")).content for _ in range(2)][1][0].text == "run 3"


async def test_principals_do_not_share_results(tmp_path: Path) -> None:
    async with open_tools(tmp_path, TOOLS, "cache") as bridge:
        runs = [(await call(bridge, "look", principal)).output["run"] for principal in ("ann", "eve", "ann", None)]
    assert runs == [1, 2, 1, 3]


@pytest.mark.parametrize("tool", ["change", "report", "log", "ask", "count"])
async def test_results_of_tools_with_effects_and_of_interactive_calls_are_not_cached(tmp_path: Path, tool: str) -> None:
    async with open_tools(tmp_path, TOOLS, "cache") as bridge:
        assert [(await call(bridge, tool)).output for _ in range(2)] == [1, 2]


@pytest.mark.parametrize("tool", ["report", "log", "ask", "count"])
async def test_a_call_that_makes_an_interactive_call_is_interactive(tmp_path: Path, tool: str) -> None:
    async with open_tools(tmp_path, TOOLS, {"cache": {"tools": "pass_on"}}) as bridge:
        runs = [(await call(bridge, "pass_on", name=tool)).output for _ in range(2)]
        assert runs == [1, 2]
        assert [(await call(bridge, "pass_on", name="change")).output for _ in range(2)] == [3, 3]


async def test_a_client_that_requests_progress_gets_it_each_time(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(f"from mcp_bridge import CallContext, tool\n{TOOLS}")
    reports: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        reports.append(progress)

    async with connect(build_bridge(tmp_path, {"type": "python", "path": "tools.py"}, "cache")) as client:
        for _ in range(2):
            await client.call_tool("report", {}, progress_callback=on_progress)
    assert reports == [1, 1]


async def test_errors_are_not_cached(tmp_path: Path) -> None:
    async with open_tools(tmp_path, TOOLS, "cache") as bridge:
        results = [await call(bridge, "fail") for _ in range(3)]
    assert [(result.is_error, result.output) for result in results] == [(True, None), (False, 2), (False, 2)]


async def test_a_reload_empties_the_cache(tmp_path: Path) -> None:
    async with open_tools(tmp_path, TOOLS, "cache", watch=True) as bridge:
        await call(bridge, "look", key="a")
        update = anyio.Event()
        bridge.registry.watch(update.set)
        file = tmp_path / "tools.py"
        file.write_text(file.read_text().replace("runs = []", "runs = ['reloaded']"))
        with anyio.fail_after(TIMEOUT):
            await update.wait()
        assert (await call(bridge, "look", key="a")).output["run"] == 2


async def dispatch(registry: ToolRegistry, key: str) -> Any:
    return (await registry.dispatch(ToolCall(id="1", name="look", arguments={"key": key}), RunningCall())).output


def build_registry(clock: list[float], size: int = MAX_SIZE, **options: Any) -> ToolRegistry:
    runs: list[str] = []

    def look(data: Any) -> str:
        runs.append(data["key"])
        return f"{data['key']} in run {len(runs)}" + "x" * 100

    policy = CachePolicy(**options)
    policy._results = policy.make_results(lambda: clock[0], size)
    registry = ToolRegistry(pipeline=Pipeline([policy]))
    registry.register(ToolEntry("look", "Look.", look, annotations=READS))
    return registry


async def test_a_result_expires_after_its_ttl() -> None:
    clock = [0.0]
    registry = build_registry(clock, ttl="10s")
    outputs = []
    for seconds in (0.0, 9.9, 10.1):
        clock[0] = seconds
        outputs.append(await dispatch(registry, "a"))
    assert outputs[0] == outputs[1] != outputs[2]


async def test_a_full_cache_removes_the_least_recently_used_results() -> None:
    # There is room for two results.
    registry = build_registry([0.0], size=1500)
    first = [await dispatch(registry, key) for key in ("a", "b", "a", "c")]
    texts = [await dispatch(registry, key) for key in ("a", "b")]
    assert texts[0] == first[0]
    assert texts[1] != first[1]


async def test_a_result_that_is_larger_than_the_cache_is_not_cached() -> None:
    registry = build_registry([0.0], size=100)
    assert await dispatch(registry, "a") != await dispatch(registry, "a")


async def test_calls_with_arguments_that_are_not_json_are_not_cached() -> None:
    registry = build_registry([0.0])
    tool_call = ToolCall(id="1", name="look", arguments={"key": object()})
    first, second = [(await registry.dispatch(tool_call, RunningCall())).output for _ in range(2)]
    assert first != second
