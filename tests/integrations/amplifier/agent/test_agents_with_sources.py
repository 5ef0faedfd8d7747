"""Agents next to other sources, and with some of their tools in worker processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge._app.bridge import Bridge
from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._settings import load
from mcp_bridge.testing import connect
from tests.integrations.amplifier.agent.test_delegation import call, script
from tests.integrations.amplifier.agent.test_isolated_agent import list_results

pytestmark = pytest.mark.usefixtures("forgotten")
OTHER = """
from pathlib import Path

class Other:
    name, description, input_schema = "other", "Do nothing.", {"type": "object"}

    async def execute(self, input):
        return {"success": True, "output": "nothing"}

async def mount(coordinator, config):
    with (Path(__file__).parent / "mounts").open("a") as file:
        file.write("x")
    await coordinator.mount("tools", Other())
"""


def serve(folder: Path, *responses: Any, others: list[Any], **source: Any) -> Bridge:
    """Serve an agent with a subagent, and other sources."""
    (folder / "other.py").write_text(OTHER)
    context = {"module": "context-persistent", "config": {"path": str(folder / "{session_id}.jsonl")}}
    plan = {
        "session": {"orchestrator": "loop-basic", "context": context},
        "providers": script(*responses),
        "tools": ["tool-task"],
        "agents": {"reader": {"providers": script("Read."), "exclude_tools": ["tool-task"]}},
    }
    (folder / "bridge.json").write_text(
        json.dumps({"sources": [{"type": "amplifier", "plan": plan, **source}, *others]})
    )
    return build_from_settings(load(folder / "bridge.json", {}))


async def test_conversations_mount_no_modules_of_sources_without_hooks(tmp_path: Path) -> None:
    source = {"type": "amplifier", "name": "other", "plan": {"tools": [{"module": "other", "source": "other.py"}]}}
    bridge = serve(tmp_path, call("task", agent="reader", instruction="Read."), "Done.", others=[source])
    async with connect(bridge) as client:
        for _ in range(2):
            assert not (await client.call_tool("run_agent", {"task": "Go."})).is_error
        assert not (await client.call_tool("other", {})).is_error
    assert (tmp_path / "mounts").read_text() == "x"


async def test_an_isolated_tool_cannot_start_agents_beyond_the_limits_of_a_run(tmp_path: Path) -> None:
    bridge = serve(
        tmp_path, call("task", agent="reader", instruction="Read."), "Done.", others=[], isolation={"tools": ["task"]}
    )
    async with connect(bridge) as client:
        await client.call_tool("run_agent", {"task": "Go."})
    [result] = list_results(tmp_path)
    assert "Remove the tool from isolation.tools" in result
