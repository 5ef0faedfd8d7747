"""The suites as a user of the testing kit runs them: pytest collects them from a class of the user's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SUITE = """
import my_context
from mcp_bridge._integrations.amplifier.loops import basic
from mcp_bridge.amplifier.testing import ContextBehaviorTests, OrchestratorBehaviorTests


class TestMyContext(ContextBehaviorTests):
    module = my_context


class TestLoop(OrchestratorBehaviorTests):
    module = basic
"""
CONTEXT = """
from mcp_bridge._integrations.amplifier.contexts.simple import SimpleContext


class Forgetful(SimpleContext):
    async def get_messages(self):
        return (await super().get_messages())[-2:]


async def mount(coordinator, config):
    await coordinator.mount("context", Forgetful(hooks=coordinator.hooks))
"""


def test_pytest_runs_every_rule_on_both_event_loops_and_names_the_broken_ones(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(SUITE, "utf-8")
    (tmp_path / "my_context.py").write_text(CONTEXT, "utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n", "utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "anyio",
        "--tb=line",
        str(tmp_path),
    ]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(tmp_path)}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    broken = [line for line in ran.stdout.splitlines() if line.startswith("FAILED")]
    assert any("test_compaction_never_changes_the_history[trio]" in line for line in broken), ran.stdout
    assert any("test_messages_are_kept_in_order_with_all_their_keys[asyncio]" in line for line in broken)
    assert not any("TestLoop" in line for line in broken), ran.stdout
    assert "get_messages() is [{" in ran.stdout
