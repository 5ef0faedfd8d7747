"""Chains in the settings: tools of any source, run one after another, and checked against each other's schemas."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client import Client
from ruamel.yaml import YAML

from mcp_bridge import ToolEntry
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._settings import load
from mcp_bridge.testing import connect
from tests.kits.constants import TIMEOUT
from tests.kits.paths import ROOT
from tests.kits.upstream.upstream_kit import write_command
from tests.kits.wire.speaking import call, get_text, list_tools

pytestmark = pytest.mark.usefixtures("forgotten")
Json = dict[str, Any]
TOOLS = '''
from dataclasses import dataclass
import anyio
from mcp_bridge import ToolEntry, ToolError, tool

@dataclass
class Page:
    text: str
    status: int

@tool
def fetch(url: str) -> Page:
    """Fetch a page."""
    return Page(f"one two {url}", 200)

@tool
def count(words: str, extra: int = 0) -> int:
    """Count words."""
    return len(words.split()) + extra

@tool
def fail(text: str) -> str:
    raise ToolError("Nothing there.", code="no_data")

untyped = ToolEntry("untyped", "", lambda data: {"anything": 1, **data}, {})
known = {"type": "object", "properties": {"a": {}}}
composed = ToolEntry("composed", "", lambda data: {}, {}, {**known, "allOf": [{"properties": {"b": {}}}]})
extensible = ToolEntry("extensible", "", lambda data: {}, {}, {**known, "additionalProperties": True})
patterned_schema = {"additionalProperties": False, "patternProperties": {"^x-": {}}}
patterned = ToolEntry("patterned", "", lambda data: data, patterned_schema)

@tool
async def sleep() -> None:
    await anyio.sleep_forever()

calls = []
@tool
def count_calls() -> int:
    calls.append(1)
    return len(calls)
'''
PYTHON = {"type": "python", "path": "tools.py"}
FETCH = {"tool": "fetch", "input": {"url": "url"}, "output": "page"}
COUNT = {"tool": "count", "input": {"words": "page.text"}, "output": "total"}


def build_bridge(folder: Path, chains: Json, *sources: Json, **settings: Any) -> Bridge:
    (folder / "tools.py").write_text(TOOLS)
    with (folder / "settings.yaml").open("w") as file:
        YAML().dump({"sources": [PYTHON, *sources], "chains": chains, **settings}, file)
    return build_from_settings(load(folder / "settings.yaml", os.environ))


@contextlib.asynccontextmanager
async def connect_chains(folder: Path, chains: Json, *sources: Json, **settings: Any) -> AsyncIterator[Client]:
    async with connect(build_bridge(folder, chains, *sources, **settings)) as client:
        yield client


async def run(
    folder: Path, *steps: Json, arguments: Json | None = None, limits: Json | None = None, **chain: Any
) -> Json:
    """Call a chain of these steps."""
    async with connect_chains(folder, {"c": {"steps": [*steps], **chain}}, limits=limits or {}) as client:
        return await call(client, "c", **(arguments or {}))


async def find_problems(folder: Path, *steps: Json, **chain: Any) -> list[str]:
    """Return why the chain is not published."""
    bridge = build_bridge(folder, {"c": {"steps": [*steps], **chain}})
    async with bridge.run_sources():
        await bridge.wait_until_started()
        assert "c" not in bridge.registry
    return [problem.removeprefix(f"chain 'c' is not published: {folder}/") for problem in bridge.problems["chains"]]


async def wait_for_chain(bridge: Bridge, *, is_published: bool = True) -> None:
    changed = anyio.Event()

    def report_change() -> None:
        nonlocal changed
        changed.set()
        changed = anyio.Event()

    stop = bridge.registry.watch(report_change)
    with anyio.fail_after(TIMEOUT):
        while ("c" in bridge.registry) is not is_published:
            await changed.wait()
    stop()


async def test_a_chain_runs_tools_of_every_kind_of_source(tmp_path: Path) -> None:
    command = {
        "type": "command",
        "tools": {"upper": {"command": "tr a-z A-Z", "stdin": "{text}", "parameters": {"text": "string"}}},
    }
    server = {"type": "mcp", "name": "server", **write_command()}
    plan = {"tools": [{"module": "greeter", "source": str(ROOT / "config" / "amplifier" / "greeter.py")}]}
    chain = {
        "steps": [
            FETCH,
            {"tool": "upper", "input": {"text": "page.text"}, "output": "text"},
            {"tool": "server__echo", "input": {"text": "text"}, "output": "echoed"},
            {"tool": "greet", "input": {"who": "echoed"}, "output": "greeting"},
        ],
        "output": "greeting",
        "description": "Greets.",
    }
    bridge = build_bridge(tmp_path, {"c": chain}, command, server, {"type": "amplifier", "plan": plan})
    with anyio.fail_after(TIMEOUT):
        async with connect(bridge) as client:
            await wait_for_chain(bridge)
            (entry,) = [tool for tool in await list_tools(client) if tool["name"] == "c"]
            assert entry["description"] == "Greets."
            assert entry["inputSchema"]["required"] == ["url"]
            assert "ONE TWO X" in get_text(await call(client, "c", url="x"))


async def test_arguments_can_be_fixed_or_have_a_default(tmp_path: Path) -> None:
    fetch = {**FETCH, "input": {"url": {"value": "a b c"}}}
    count = {**COUNT, "input": {"words": "page.text", "extra": {"from": "extra", "default": 10}}}
    async with connect_chains(tmp_path, {"c": {"steps": [fetch, count], "output": ["total"]}}) as client:
        (entry,) = [tool for tool in await list_tools(client) if tool["name"] == "c"]
        assert entry["inputSchema"] == {"type": "object", "properties": {"extra": {"type": "integer", "default": 0}}}
        assert (await call(client, "c"))["structuredContent"] == {"total": 15}
        assert (await call(client, "c", extra=1))["structuredContent"] == {"total": 6}


async def test_a_step_can_have_no_arguments(tmp_path: Path) -> None:
    steps = [FETCH, {"tool": "count_calls", "input": {}, "output": "times"}]
    result = await run(tmp_path, *steps, arguments={"url": "x"}, output="times")
    assert get_text(result) == "1"


async def test_a_chain_that_only_reads_can_be_cached(tmp_path: Path) -> None:
    steps = [{"tool": "count_calls", "input": {}, "output": "calls"}]
    chains = {"c": {"steps": steps, "output": "calls", "annotations": {"readOnlyHint": True}}}
    async with connect_chains(tmp_path, chains, policy=["cache"]) as client:
        assert [get_text(await call(client, "c")) for _ in range(2)] == ["1", "1"]


async def test_a_chain_can_call_chains_in_any_order(tmp_path: Path) -> None:
    outer = {"steps": [{"tool": "inner", "input": {"url": "url"}, "output": "n"}], "output": "n"}
    inner = {"steps": [FETCH, COUNT], "output": "total"}
    async with connect_chains(tmp_path, {"outer": outer, "inner": inner}) as client:
        assert get_text(await call(client, "outer", url="x")) == "3"


async def test_the_settings_define_attempts_and_failures_of_a_step(tmp_path: Path) -> None:
    fail = {"tool": "fail", "input": {"text": {"value": "x"}}}
    result = await run(
        tmp_path, {**fail, "continue_on_failure": True}, FETCH, COUNT, output="total", arguments={"url": "x"}
    )
    assert not result["isError"]
    assert "Step 1 of 3 ('fail') failed: Nothing there.\nThe chain continued without this step." in get_text(result)
    result = await run(tmp_path, fail, FETCH, arguments={"url": "x"})
    assert result["_meta"]["mcp-bridge/code"] == "no_data"


async def test_each_step_is_a_call_with_the_limits_of_its_tool(tmp_path: Path) -> None:
    result = await run(tmp_path, {"tool": "sleep"}, limits={"tools": {"sleep": {"timeout": 0.05}}})
    assert get_text(result).startswith("Step 1 of 1 ('sleep') failed: Tool 'sleep' did not finish within 0.05 seconds")


async def test_a_chain_can_have_a_time_limit(tmp_path: Path) -> None:
    result = await run(tmp_path, {"tool": "sleep"}, limits={"tools": {"c": {"timeout": 0.05}}})
    assert get_text(result).startswith("Tool 'c' did not finish within 0.05 seconds")


# Checks


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        ([{"tool": "cont"}], "settings.yaml:7: chains.c.steps[0].tool: Unknown tool: cont. Did you mean 'count'?"),
        ([{"tool": "c"}], "settings.yaml:7: chains.c.steps[0].tool: the chain 'c' calls itself, without end"),
        (
            [FETCH, {"tool": "count", "output": "n"}],
            "settings.yaml:11: chains.c.steps[1]: 'count' requires the argument 'words'",
        ),
        (
            [FETCH, {"tool": "count", "input": {"extra": {"value": 1}}}],
            "settings.yaml:11: chains.c.steps[1]: 'count' requires the argument 'words'",
        ),
        (
            [FETCH, {"tool": "count", "input": {"words": "page.txt"}}],
            "settings.yaml:13: chains.c.steps[1].input.words: the output of 'fetch' has no 'txt'. "
            "Known names: text, status",
        ),
        (
            [FETCH, {"tool": "count", "input": {"words": "page.status"}}],
            "settings.yaml:13: chains.c.steps[1].input.words: expected string, "
            "but the value from the output of 'fetch' is integer",
        ),
        (
            [FETCH, {"tool": "count", "input": {"words": "url", "extra": {"value": "many"}}}],
            "settings.yaml:14: chains.c.steps[1].input.extra: expected type integer, got str",
        ),
        (
            [FETCH, {"tool": "sleep"}],
            "settings.yaml:11: chains.c.steps[1]: 'sleep' has no argument 'url'. This step has no `input`, so it "
            "passes the whole context. Write `input: {}` to pass no arguments",
        ),
        (
            [FETCH, {"tool": "count", "input": {"words": "url", "extra": "url"}}],
            "settings.yaml:14: chains.c.steps[1].input.extra: expected integer, "
            "but the value from the input of the chain is string",
        ),
    ],
)
async def test_a_chain_that_cannot_work_is_not_published_and_the_line_is_named(
    tmp_path: Path, steps: list[Json], problem: str
) -> None:
    assert (await find_problems(tmp_path, *steps))[0] == problem


async def test_an_input_schema_limits_the_inputs_of_a_chain(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"url": {"type": "integer"}}}
    problems = await find_problems(tmp_path, FETCH, {"tool": "count", "input": {"words": "text"}}, input_schema=schema)
    assert [problem.partition("]")[2] for problem in problems] == [
        ".input.url: expected string, but the value from the input of the chain is integer",
        ".input.words: neither the input of the chain nor an earlier step has 'text'. Known names: url, page",
    ]


@pytest.mark.parametrize("output", ["pag", "page.txt", ["page.text", "pag"]])
async def test_an_output_that_no_step_produces_is_a_problem(tmp_path: Path, output: Any) -> None:
    (problem,) = await find_problems(tmp_path, FETCH, output=output)
    text = "the output of 'fetch' has no 'txt'" if output == "page.txt" else "nor an earlier step has 'pag'"
    assert ": chains.c.output: " in problem
    assert text in problem


@pytest.mark.parametrize(
    "steps",
    [
        [{"tool": "untyped", "input": {"a": "a"}, "output": "x"}, {"tool": "count", "input": {"words": "x.any"}}],
        [{"tool": "untyped", "input": {"a": "a"}}, {"tool": "count", "input": {"words": "anything", "extra": "more"}}],
        [{"tool": "fetch"}, {"tool": "count", "input": {"words": "text"}}],
        [{"tool": "untyped"}, {"tool": "count"}],
        [{"tool": "composed", "output": "x"}, {"tool": "count", "input": {"words": "x.b"}}],
        [{"tool": "composed"}, {"tool": "count", "input": {"words": "b"}}],
        [{"tool": "extensible"}, {"tool": "count", "input": {"words": "b"}}],
        [{"tool": "patterned", "input": {"x-a": "a"}}],
    ],
)
async def test_an_incomplete_schema_is_no_problem(tmp_path: Path, steps: list[Json]) -> None:
    async with connect_chains(tmp_path, {"c": {"steps": steps}}) as client:
        assert "c" in [tool["name"] for tool in await list_tools(client)]


async def test_a_chain_is_checked_again_when_tools_change(tmp_path: Path) -> None:
    bridge = build_bridge(tmp_path, {"c": {"steps": [{"tool": "late", "input": {"a": "a"}}], "output": "b"}})

    def late(argument: str) -> ToolEntry:
        return ToolEntry(
            "late", "", lambda data: {"b": data["a"]}, {"properties": {argument: {}}, "required": [argument]}
        )

    with anyio.fail_after(TIMEOUT):
        async with connect(bridge) as client:
            assert "Unknown tool: late" in bridge.problems["chains"][0]
            bridge.registry.publish("other", [late("a")])
            await wait_for_chain(bridge)
            assert get_text(await call(client, "c", a="x")) == "x"
            assert bridge.problems["chains"] == []
            bridge.registry.publish("other", [late("z")])
            await wait_for_chain(bridge, is_published=False)
            assert "'late' requires the argument 'z'" in bridge.problems["chains"][0]


async def test_a_chain_with_an_absent_server_reports_the_reason(tmp_path: Path) -> None:
    server = {"type": "mcp", "name": "server", "command": "no-such-program"}
    bridge = build_bridge(tmp_path, {"c": {"steps": [{"tool": "server__echo"}]}}, server)
    async with bridge.run_sources():
        await bridge.wait_until_started()
        await bridge.wait_until_connected()
        (problem,) = bridge.problems["chains"]
    assert "chains.c.steps[0].tool: Unknown tool: server__echo" in problem
    assert "'server'" in problem.partition("server__echo")[2]


@pytest.mark.parametrize(
    ("chain", "problem"),
    [
        ({"steps": []}, "chains.c.steps: expected 1 or more entries"),
        ({}, "chains.c.steps: this key is required"),
        (
            {"steps": [{"tool": "fetch", "input": {"url": {}}}]},
            "chains.c.steps[0].input.url: give either from or value",
        ),
        ({"steps": [{"tool": "fetch", "input": {"url": {"from": "a", "value": 1}}}]}, "give either from or value"),
        ({"steps": [{"tool": "fetch", "input": {"url": {"value": 1, "default": 1}}}]}, "default requires from"),
        ({"steps": [{"tool": "fetch", "input": {"url": "a..b"}}]}, "chains.c.steps[0].input.url"),
        ({"steps": [{"tool": "fetch", "tries": 2}]}, "unknown key 'tries'"),
    ],
)
def test_a_mistake_in_a_chain_is_an_error_with_its_place(tmp_path: Path, chain: Json, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build_bridge(tmp_path, {"c": chain})
    assert problem in str(caught.value)
    assert "settings.yaml:" in str(caught.value)


def test_no_source_can_have_the_name_of_the_chains(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a source is named 'chains'"):
        build_bridge(tmp_path, {"c": {"steps": [FETCH]}}, {**PYTHON, "name": "chains"})
