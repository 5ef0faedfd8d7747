"""Limits of an agent in worker processes, as in the bridge: hooks, and early ends of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_bridge.testing import connect
from tests.integrations.amplifier.agent.test_isolated_agent import list_results, make_call_response, serve
from tests.kits.hooks.hooks_kit import get_texts

pytestmark = pytest.mark.usefixtures("forgotten")

STRICT = """
from mcp_bridge.amplifier import HookResult

async def mount(coordinator, config):
    async def decide(event, data):
        return HookResult(action="deny", reason="not in a worker")
    coordinator.hooks.register("tool:pre", decide)
"""


@pytest.mark.parametrize("section", ["hooks", "tools"])
async def test_an_agent_with_its_own_hooks_for_calls_does_not_run_in_a_worker(section: str, tmp_path: Path) -> None:
    (tmp_path / "strict.py").write_text(STRICT)
    reader = {
        "providers": [{"module": "provider-scripted", "config": {"responses": [make_call_response("where"), "Ran."]}}],
        section: [{"module": "strict", "source": "strict.py"}],
    }
    tools = [{"module": "tools_of_agent", "source": "tools_of_agent.py"}, "tool-task"]
    start = make_call_response("task", agent="reader", instruction="Go.")
    async with connect(serve(tmp_path, start, "Done.", tools=tools, agents={"reader": reader})) as client:
        await client.call_tool("run_agent", {"task": "Go."})
    [result] = list_results(tmp_path)
    assert "The agent 'reader' cannot run: " in result
    assert "hooks for calls" in result


async def test_a_run_that_stops_early_is_continued_in_the_worker_that_has_it(tmp_path: Path) -> None:
    """Two conversations meet, so they are in two workers."""
    loop = {"module": "loop-basic", "config": {"max_iterations": 1}}
    session = {"orchestrator": loop, "context": "context-simple"}
    handles: dict[str, Any] = {}
    async with connect(serve(tmp_path, make_call_response("meets"), "One.", workers=2, session=session)) as client:

        async def talk(name: str) -> None:
            stopped = await client.call_tool("run_agent", {"task": "Meet."})
            handles[name] = get_texts(stopped)[-1].split("'")[1]

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(talk, "a")
            tasks.start_soon(talk, "b")
        results = [
            await client.call_tool("run_agent", {"task": "Go on.", "session": handles[letter]}) for letter in "ab"
        ]
    assert [get_texts(result)[0] for result in results] == ["One."] * 2
