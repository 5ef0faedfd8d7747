"""A plan without hooks can run entirely in worker processes; hooks govern calls only in the bridge's process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_bridge import ToolCall
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._contracts.errors import ConfigError, SourceError
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._settings import Document, parse
from tests.kits.constants import TIMEOUT

TOOL = """
import os
from mcp_bridge.amplifier.testing import MockTool

async def mount(coordinator, config):
    await coordinator.mount("tools", MockTool("where", {"process": os.getpid()}))
"""
HOOK = """
async def mount(coordinator, config):
    coordinator.hooks.register("tool:pre", lambda event, data: {"action": "deny"}, name="denies")
"""
LATE_HOOK = """
async def on_session_ready(coordinator):
    coordinator.hooks.register("tool:pre", lambda event, data: {"action": "deny"}, name="denies")
"""
MODULES = {"tool": TOOL, "hook": HOOK, "both": TOOL + LATE_HOOK}


def build(folder: Path, **plan: Any) -> Bridge:
    """Build the bridge of a plan with isolated tools only."""
    for name, text in MODULES.items():
        (folder / f"{name}.py").write_text(text)
    sections = {
        section: [{"module": name, "source": f"{name}.py"} for name in names] for section, names in plan.items()
    }
    source = {"type": "amplifier", "plan": sections, "isolation": {"workers": 1}}
    return build_from_settings(parse(Document(path=str(folder / "s.json"), data={"sources": [source]}), {}))


async def test_a_plan_without_hooks_runs_in_workers(tmp_path: Path) -> None:
    bridge = build(tmp_path, tools=["tool"])
    with anyio.fail_after(TIMEOUT):
        async with bridge.run_sources():
            await bridge.wait_until_started()
            result = await bridge.registry.dispatch(ToolCall(id="1", name="where", arguments={}), RunningCall())
            assert result.output["process"] != os.getpid()
            assert bridge.problems.get("amplifier", []) == []


async def test_a_module_that_registers_hooks_in_a_worker_ends_the_source(tmp_path: Path) -> None:
    bridge = build(tmp_path, tools=["both"])
    with (
        anyio.fail_after(TIMEOUT),
        pytest.raises(SourceError, match=r"hooks for calls \('denies'\).* isolation\.tools"),
    ):
        async with bridge.run_sources():
            await bridge.wait_until_started()


def test_a_plan_with_hooks_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="its hooks govern calls"):
        build(tmp_path, tools=["tool"], hooks=["hook"])
