"""Every policy and every setting on a tool, times every way to the tool (tests/kits/policies/ways.py)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import mcp_bridge
from mcp_bridge.registry.plugins import POLICIES
from mcp_bridge.settings.model import ArgumentOverrideSettings, SourceSettings, ToolOverrideSettings
from mcp_bridge.settings.sections import ToolLimitSettings
from tests.kits.policies.ways import CASES, ELSEWHERE, TRAIL, WAYS, follow_way, publish_name

STARTS_CALL = re.compile(r"\.(dispatch|dispatch_entry|invoke|invoke_entry|run_prepared)\(")
OTHERS = {
    "registry/registry.py": "the registry itself",
    "server/completions.py": "completes arguments",
    "tool_use/chain.py": "ToolChain.execute is the tool_use API, which has no policies",
    "frameworks/crewai.py": "the handler of a tool",
    "frameworks/langchain.py": "the handler of a tool",
}
"""Modules that call methods of these names, but are no way of their own to a published tool."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.usefixtures("forgotten")
async def test_policies_and_settings_reach_a_tool_in_every_way(tmp_path: Path, way: str) -> None:
    runs = await follow_way(tmp_path, WAYS[way])
    expected = {name: list(case.runs) for name, case in CASES.items()}
    if way == "command":  # each command is a server of its own
        expected |= {name: [] for name, case in CASES.items() if case.calls > 1}
    if way == "task":  # tasks.timeout takes precedence over limits.tools
        expected["timeout"] = runs["timeout"]
    if not runs["hidden"]:  # a caller that sends a hidden argument may be rejected
        expected["hidden"] = []
    assert runs == expected
    trail = b"".join(file.read_bytes() for file in (tmp_path / TRAIL).parent.iterdir())
    assert publish_name("audit").encode() in trail


def test_every_policy_and_every_setting_on_a_tool_is_in_the_matrix() -> None:
    policies = {name for case in CASES.values() for name in case.policy}
    assert policies == set(POLICIES)
    overrides = [case.override for case in CASES.values()]
    arguments = [argument for one in overrides for argument in one.get("arguments", {}).values()]
    limits = [limit for case in CASES.values() for limit in case.limits.values()]
    covered = {
        key for one in (*overrides, *arguments, *limits, *(case.source for case in CASES.values())) for key in one
    }
    models = (SourceSettings, ToolOverrideSettings, ArgumentOverrideSettings, ToolLimitSettings)
    assert {name for model in models for name in model.model_fields} == covered | set(ELSEWHERE)


def test_every_module_that_starts_calls_is_a_way_in_the_matrix() -> None:
    folder = Path(mcp_bridge.__file__).parent
    found = {
        file.relative_to(folder).as_posix() for file in folder.rglob("*.py") if STARTS_CALL.search(file.read_text())
    }
    assert found == {module for way in WAYS.values() for module in way.through} | set(OTHERS)
