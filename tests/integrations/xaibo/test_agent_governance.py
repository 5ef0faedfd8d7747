"""Calls of an agent to tools go through the pipeline: they are validated, governed, limited and recorded."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge import ToolRegistry
from mcp_bridge._app.bridge import AttachedSource, Bridge
from mcp_bridge._engine.overrides import ToolOverride
from mcp_bridge._engine.pipeline import ToolLimits
from mcp_bridge._engine.selection import Selection
from mcp_bridge._integrations.amplifier.hook_middleware import HookMiddleware
from mcp_bridge._integrations.xaibo.source import XaiboSource
from mcp_bridge._policies.approvals.gate import ApprovalGate
from mcp_bridge.amplifier import HookRegistry, HookResult
from mcp_bridge.middleware import Pipeline
from mcp_bridge.testing import connect
from tests.kits.constants import EVERY_ERA
from tests.kits.hooks.hooks_kit import ScriptedUser
from tests.kits.xaibo.xaibo_kit import call_text, write_files

pytestmark = pytest.mark.usefixtures("forgotten")

MYTOOLS = """
import time

from xaibo.primitives.modules.tools.python_tool_provider import tool

ran = []

@tool
def add(a: int, b: int) -> int:
    '''Adds.'''
    ran.append((a, b))
    return a + b

@tool
def wait() -> str:
    '''Waits.'''
    time.sleep(0.5)
    return "waited"
"""
PARTS = """
import asyncio
import json
import threading

from xaibo.core.models import Tool, ToolResult
from xaibo.core.protocols import ResponseProtocol, TextMessageHandlerProtocol, ToolProviderProtocol


class Runs(TextMessageHandlerProtocol):
    '''Calls the tool that the message names, and responds with the result.'''

    def __init__(self, response: ResponseProtocol, tools: ToolProviderProtocol, config: dict = None):
        self.response = response
        self.tools = tools

    async def handle_text(self, text):
        call = json.loads(text)
        await self.tools.list_tools()
        result = await self.tools.execute_tool(call["name"], call.get("arguments", {}))
        assert isinstance(result, ToolResult)
        await self.response.respond_text(str(result.result if result.success else f"failed: {result.error}"))


class Lists(Runs):
    async def handle_text(self, text):
        if text != "list":
            return await super().handle_text(text)
        tools = {tool.name: [tool.description, [*tool.parameters]] for tool in await self.tools.list_tools()}
        await self.response.respond_text(json.dumps(tools))


class RunsLater(Runs):
    '''Calls the tool from a thread that knows nothing of the call.'''

    async def handle_text(self, text):
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def run():
            future = asyncio.run_coroutine_threadsafe(Runs.handle_text(self, text), loop)
            future.add_done_callback(lambda _: loop.call_soon_threadsafe(done.set))

        threading.Thread(target=run).start()
        await done.wait()


class Doubles(ToolProviderProtocol):
    '''Passes calls on to another provider, and has a tool that makes a different call of it.'''

    def __init__(self, tools: ToolProviderProtocol, config: dict = None):
        self.tools = tools

    async def list_tools(self):
        return [*await self.tools.list_tools(), Tool(name="add_one", description="Adds one.")]

    async def execute_tool(self, tool_name, parameters):
        if tool_name == "add_one":
            return await self.tools.execute_tool("mytools-add", {"a": 1, "b": 1})
        return await self.tools.execute_tool(tool_name, parameters)
"""
AGENT = """
id: helper
modules:
  - {id: talk, module: parts.%s, scope: %s}
  - {id: py, module: xaibo.primitives.modules.tools.PythonToolProvider, config: {tool_packages: [mytools]}}
%s
"""
COLLECTED = """
  - {id: all, module: xaibo.primitives.modules.tools.tool_collector.ToolCollector}
exchange:
  - {module: __entry__, protocol: TextMessageHandlerProtocol, provider: talk}
  - {module: talk, protocol: ToolProviderProtocol, provider: all}
  - {module: all, protocol: ToolProviderProtocol, provider: [py]}
  - {module: talk, protocol: ResponseProtocol, provider: __response__}
"""
DOUBLED = """
  - {id: all, module: parts.Doubles}
exchange:
  - {module: __entry__, protocol: TextMessageHandlerProtocol, provider: talk}
  - {module: talk, protocol: ToolProviderProtocol, provider: all}
  - {module: all, protocol: ToolProviderProtocol, provider: py}
  - {module: talk, protocol: ResponseProtocol, provider: __response__}
"""
ADD = '{"name": "mytools-add", "arguments": {"a": 2, "b": 3}}'


class Governed:
    """A bridge over an agent, under hooks."""

    def __init__(
        self,
        folder: Path,
        *,
        class_name: str = "Runs",
        scope: str = "instance",
        exchange: str = "",
        offer: str = "agent",
        selection: Selection | None = None,
        tools: dict[str, ToolLimits] | None = None,
    ) -> None:
        write_files(folder, parts=PARTS, mytools=MYTOOLS, it_yaml=AGENT % (class_name, scope, exchange))
        self.hooks = HookRegistry(fail_closed=("tool:pre", "tool:post"))
        middleware = HookMiddleware(lambda ctx: nullcontext(self.hooks), ApprovalGate())
        registry = ToolRegistry(pipeline=Pipeline([middleware], tools=tools))
        options: Any = {"agent": folder / "it.yaml", "offer": offer, "directory": folder}
        source = XaiboSource("mine", **options)
        self.bridge = Bridge(registry, [AttachedSource(source=source, selection=selection or Selection())])

    def decide(self, tool: str, result: HookResult | None, event: str = "tool:pre") -> list[dict[str, Any]]:
        """Make the hook decide this for one tool. Return the data of the hook for all tools."""
        calls: list[dict[str, Any]] = []

        async def handler(_: str, data: dict[str, Any]) -> HookResult | None:
            calls.append(data)
            return result if data["tool_name"] == tool else None

        self.hooks.register(event, handler)
        return calls


DENIED = HookResult(action="deny", reason="no sums")


@pytest.mark.parametrize("exchange", ["", COLLECTED, DOUBLED], ids=["direct", "collected", "passed on"])
@pytest.mark.parametrize("scope", ["instance", "agent"])
async def test_a_hook_denies_a_tool_that_an_agent_calls(tmp_path: Path, scope: str, exchange: str) -> None:
    governed = Governed(tmp_path, scope=scope, exchange=exchange)
    result = governed.decide("mytools-add", DENIED)
    async with connect(governed.bridge) as client:
        answer = await call_text(client, "helper", message=ADD)
    # Xaibo gives each module of scope 'agent' a separate response module, which is never read.
    if scope == "instance":
        assert answer == "failed: Tool 'mytools-add' was denied: no sums"
    assert sys.modules["mytools"].ran == []
    assert [data["tool_name"] for data in result] == ["helper", "mytools-add"]
    outer, inner = (data["tool_call_id"] for data in result)
    assert inner == f"{outer}.1"


@pytest.mark.parametrize("exchange", ["", COLLECTED, DOUBLED], ids=["direct", "collected", "passed on"])
async def test_an_allowed_tool_of_an_agent_runs_once_with_its_policies(tmp_path: Path, exchange: str) -> None:
    governed = Governed(tmp_path, exchange=exchange)
    result = governed.decide("", None)
    async with connect(governed.bridge) as client:
        assert await call_text(client, "helper", message=ADD) == "5"
    assert [data["tool_name"] for data in result] == ["helper", "mytools-add"]


@pytest.mark.parametrize("exchange", ["", COLLECTED, DOUBLED], ids=["direct", "collected", "passed on"])
async def test_an_agent_gets_the_tools_with_the_overrides_of_the_settings(tmp_path: Path, exchange: str) -> None:
    override = ToolOverride(description="Adds one.", fixed={"b": 1})
    selection = Selection(exclude=["mytools-wait"], overrides={"mytools-add": override})
    governed = Governed(tmp_path, class_name="Lists", exchange=exchange, selection=selection)
    async with connect(governed.bridge) as client:
        output = json.loads(await call_text(client, "helper", message="list"))
        assert output["mytools-add"] == ["Adds one.", ["a"]]
        assert "mytools-wait" not in output
        assert await call_text(client, "helper", message='{"name": "mytools-add", "arguments": {"a": 2}}') == "3"
        assert (await call_text(client, "helper", message='{"name": "mytools-wait"}')).startswith("failed: ")


async def test_policies_apply_to_another_call_that_a_provider_makes(tmp_path: Path) -> None:
    governed = Governed(tmp_path, exchange=DOUBLED)
    result = governed.decide("mytools-add", DENIED)
    async with connect(governed.bridge) as client:
        answer = await call_text(client, "helper", message='{"name": "add_one"}')
    assert answer == "failed: Tool 'mytools-add' was denied: no sums"
    assert [data["tool_call_id"].count(".") for data in result] == [0, 1, 2]


async def test_the_arguments_of_an_agent_are_validated(tmp_path: Path) -> None:
    async with connect(Governed(tmp_path).bridge) as client:
        answer = await call_text(client, "helper", message='{"name": "mytools-add", "arguments": {"a": "two", "b": 3}}')
        assert answer.startswith("failed: Input validation failed for tool 'mytools-add'")
        assert "not found" in await call_text(client, "helper", message='{"name": "mytools-subtract"}')


async def test_the_time_limit_of_a_tool_applies_inside_an_agent(tmp_path: Path) -> None:
    governed = Governed(tmp_path, tools={"mytools-wait": ToolLimits(timeout=0.05)})
    async with connect(governed.bridge) as client:
        answer = await call_text(client, "helper", message='{"name": "mytools-wait"}')
    assert answer.startswith("failed: Tool 'mytools-wait' did not finish within 0.05 seconds")


@EVERY_ERA
async def test_the_user_is_asked_about_a_tool_that_an_agent_calls(tmp_path: Path, mode: str) -> None:
    governed, user = Governed(tmp_path), ScriptedUser("Deny", "Allow")
    governed.decide("mytools-add", HookResult(action="ask_user", approval_prompt="Add?"))
    async with connect(governed.bridge, mode=mode, elicitation_callback=user) as client:
        assert "failed: Tool 'mytools-add' was not approved" in await call_text(client, "helper", message=ADD)
        assert await call_text(client, "helper", message=ADD) == "5"
    assert len(user.asked) == 2


async def test_a_hook_changes_the_result_for_the_agent(tmp_path: Path) -> None:
    governed = Governed(tmp_path)
    governed.decide("mytools-add", HookResult(action="modify", data={"result": "hidden"}), "tool:post")
    async with connect(governed.bridge) as client:
        assert await call_text(client, "helper", message=ADD) == "hidden"


async def test_a_text_that_a_hook_injects_reaches_the_model_of_the_agent(tmp_path: Path) -> None:
    governed = Governed(tmp_path)
    governed.decide("mytools-add", HookResult(action="inject_context", context_injection="Round it."), "tool:post")
    async with connect(governed.bridge) as client:
        assert (await call_text(client, "helper", message=ADD)).startswith("5\n\nRound it.")


async def test_policies_match_the_published_name_of_a_tool(tmp_path: Path) -> None:
    selection = Selection(prefix="x", alias={"mytools-add": "plus"})
    governed = Governed(tmp_path, offer="both", selection=selection)
    governed.decide("plus", DENIED)
    async with connect(governed.bridge) as client:
        assert "denied" in await call_text(client, "plus", a=2, b=3)
        assert await call_text(client, "x__helper", message=ADD) == "failed: Tool 'plus' was denied: no sums"


async def test_a_tool_is_rejected_outside_of_a_call(tmp_path: Path) -> None:
    governed = Governed(tmp_path, class_name="RunsLater")
    governed.decide("mytools-add", DENIED)
    async with connect(governed.bridge) as client:
        answer = await call_text(client, "helper", message=ADD)
    assert answer.startswith("failed: Tool 'mytools-add' can only be called while a call of the agent runs")
    assert sys.modules["mytools"].ran == []
