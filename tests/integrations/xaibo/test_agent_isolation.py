"""The policies of the bridge apply to the tools of an agent in a worker."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge import ToolRegistry
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._engine.pipeline import Pipeline, ToolLimits
from mcp_bridge._integrations.amplifier.hook_middleware import HookMiddleware
from mcp_bridge._policies.approvals.gate import ApprovalGate
from mcp_bridge._settings import load
from mcp_bridge.amplifier import HookRegistry, HookResult
from mcp_bridge.testing import connect
from tests.integrations.xaibo.test_agent_governance import ADD, AGENT, DENIED, DOUBLED, MYTOOLS, PARTS
from tests.kits.constants import EVERY_ERA
from tests.kits.hooks.hooks_kit import ScriptedUser
from tests.kits.xaibo.xaibo_kit import call_text, write_files

OWN = """
from mcp_bridge import tool

@tool(name="mytools-add")
def add(a: int, b: int) -> int:
    return 0
"""


@asynccontextmanager
async def build_isolated_agent(
    folder: Path, hooks: HookRegistry, *, exchange: str = "", has_other: bool = False, options: Any = None, **more: Any
) -> Any:
    """Yield a client of a bridge with an isolated agent and hooks."""
    write_files(folder, parts=PARTS, mytools=MYTOOLS, own=OWN, it_yaml=AGENT % ("Runs", "instance", exchange))
    source = {"type": "xaibo", "agent": "it.yaml", "offer": "agent", "isolation": "process", **(options or {})}
    sources = [source, *([{"type": "python", "path": "own.py"}] if has_other else [])]
    (folder / "bridge.json").write_text(json.dumps({"sources": sources}))
    bridge = build_from_settings(load(folder / "bridge.json", {}))
    middleware = HookMiddleware(lambda ctx: nullcontext(hooks), ApprovalGate())
    tools = {"mytools-wait": ToolLimits(timeout=0.05)}
    # Settings cannot pass middleware, so another bridge runs the same sources.
    registry = ToolRegistry(pipeline=Pipeline([middleware], tools=tools))
    governed_bridge = Bridge(registry, bridge._sources)
    async with connect(governed_bridge, **more) as client:
        yield client


def build_hooks(tool: str, result: HookResult | None, event: str = "tool:pre") -> tuple[HookRegistry, list[Any]]:
    """Return hooks with this decision for one tool, and the list of their data for all tools."""
    calls: list[Any] = []
    hooks = HookRegistry(fail_closed=("tool:pre",))

    async def handler(_: str, data: dict[str, Any]) -> HookResult | None:
        calls.append(data)
        return result if data["tool_name"] == tool else None

    hooks.register(event, handler)
    return hooks, calls


async def test_a_hook_denies_a_tool_that_an_isolated_agent_calls(tmp_path: Path) -> None:
    hooks, hook_data = build_hooks("mytools-add", DENIED)
    async with build_isolated_agent(tmp_path, hooks) as client:
        assert await call_text(client, "helper", message=ADD) == "failed: Tool 'mytools-add' was denied: no sums"
        wrong = '{"name": "mytools-add", "arguments": {"a": "two", "b": 3}}'
        assert (await call_text(client, "helper", message=wrong)).startswith("failed: Input validation failed")
    outer, inner = (data["tool_call_id"] for data in hook_data[:2])
    assert inner == f"{outer}.1"


async def test_an_allowed_tool_of_an_isolated_agent_runs_once_with_its_policies(tmp_path: Path) -> None:
    # The hook replaces the arguments of each sum, so each result is 5 + 5.
    hooks, hook_data = build_hooks("mytools-add", HookResult(action="modify", data={"tool_input": {"a": 5, "b": 5}}))
    async with build_isolated_agent(tmp_path, hooks, exchange=DOUBLED) as client:
        assert await call_text(client, "helper", message=ADD) == "10"
        assert await call_text(client, "helper", message='{"name": "add_one"}') == "10"
    # `add_one` is a tool of DOUBLED, which calls `mytools-add`. The hook runs once for each call.
    names = [data["tool_name"] for data in hook_data]
    assert names == ["helper", "mytools-add", "helper", "add_one", "mytools-add"]


async def test_the_time_limit_of_a_tool_applies_inside_an_isolated_agent(tmp_path: Path) -> None:
    hooks, _ = build_hooks("", None)
    async with build_isolated_agent(tmp_path, hooks) as client:
        text = await call_text(client, "helper", message='{"name": "mytools-wait"}')
    assert text.startswith("failed: Tool 'mytools-wait' did not finish within 0.05 seconds")


@EVERY_ERA
async def test_the_user_is_asked_about_a_tool_of_an_isolated_agent(tmp_path: Path, mode: str) -> None:
    hooks, _ = build_hooks("mytools-add", HookResult(action="ask_user", approval_prompt="Add?"))
    user = ScriptedUser("Deny", "Allow")
    async with build_isolated_agent(tmp_path, hooks, mode=mode, elicitation_callback=user) as client:
        assert "failed: Tool 'mytools-add' was not approved" in await call_text(client, "helper", message=ADD)
        assert await call_text(client, "helper", message=ADD) == "5"


async def test_an_isolated_agent_cannot_use_the_name_of_another_sources_tool(tmp_path: Path) -> None:
    hooks, _ = build_hooks("", None)
    async with build_isolated_agent(tmp_path, hooks, has_other=True) as client:
        assert "another source has a tool of this name" in await call_text(client, "helper", message=ADD)


@pytest.mark.parametrize("prefix", ["", "x"])
async def test_policies_see_a_tool_of_an_isolated_agent_under_its_published_name(tmp_path: Path, prefix: str) -> None:
    hooks, _ = build_hooks("plus", DENIED)
    options = {"offer": "both", "prefix": prefix, "alias": {"mytools-add": "plus"}}
    async with build_isolated_agent(tmp_path, hooks, options=options) as client:
        name = f"{prefix}__helper" if prefix else "helper"
        assert await call_text(client, name, message=ADD) == "failed: Tool 'plus' was denied: no sums"
