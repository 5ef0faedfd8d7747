"""Every policy and every setting on a tool, times every way to the tool (tests/kits/policies/ways.py)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mcp.shared.exceptions import MCPError

import mcp_bridge
from mcp_bridge._engine.plugins import POLICIES, load_policy_type
from mcp_bridge._settings.model import ArgumentOverrideSettings, SourceSettings, ToolOverrideSettings
from mcp_bridge._settings.sections import ToolLimitSettings
from mcp_bridge.testing import connect
from tests.kits.audit.audit_kit import read_records
from tests.kits.policies.policies_kit import build_bridge
from tests.kits.policies.ways import CASES, TRAIL, UNTESTED_SETTINGS, WAYS, follow_way, publish_name

NO_EXAMPLE = r"^(?! *(?:>>>|\.\.\. )).*"
STARTS_CALL = re.compile(NO_EXAMPLE + r"\.(dispatch|dispatch_entry|invoke|invoke_entry|run_prepared)\(", re.MULTILINE)
OTHERS = {
    "_engine/registry.py": "the registry itself",
    "_server/completions.py": "completes arguments",
    "_engine/tool_use/chain.py": "ToolChain.execute is the tool_use API, which has no policies",
    "_integrations/frameworks/crewai.py": "the handler of a tool",
    "_integrations/frameworks/langchain.py": "the handler of a tool",
}
"""Modules that call methods of these names, but are no way of their own to a published tool."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.usefixtures("forgotten")
async def test_policies_and_settings_reach_a_tool_in_every_way(tmp_path: Path, way: str) -> None:
    runs = await follow_way(tmp_path, WAYS[way])
    expected_runs = {name: list(case.runs) for name, case in CASES.items()}
    # Each command is a separate server.
    if way == "command":
        expected_runs |= {name: [] for name, case in CASES.items() if case.calls > 1}
    # For tasks, tasks.timeout takes precedence over limits.tools.
    if way == "task":
        expected_runs["timeout"] = runs["timeout"]
    # A caller that sends a hidden argument may be rejected.
    if not runs["hidden"]:
        expected_runs["hidden"] = []
    assert runs == expected_runs
    assert publish_name("audit") in {record["name"] for record in read_records(tmp_path / TRAIL)}


def test_every_policy_and_every_setting_on_a_tool_is_in_the_matrix() -> None:
    policies = {name for case in CASES.values() for name in case.policy}
    assert policies == set(POLICIES)
    overrides = [case.override for case in CASES.values()]
    arguments = [argument for override in overrides for argument in override.get("arguments", {}).values()]
    limits = [limit for case in CASES.values() for limit in case.limits.values()]
    case_names = {
        key
        for override in (*overrides, *arguments, *limits, *(case.source for case in CASES.values()))
        for key in override
    }
    models = (SourceSettings, ToolOverrideSettings, ArgumentOverrideSettings, ToolLimitSettings)
    assert {name for model in models for name in model.model_fields} == case_names | set(UNTESTED_SETTINGS)


def test_every_module_that_starts_calls_is_a_way_in_the_matrix() -> None:
    folder = Path(mcp_bridge.__file__).parent
    modules = {
        file.relative_to(folder).as_posix() for file in folder.rglob("*.py") if STARTS_CALL.search(file.read_text())
    }
    assert modules == {module for way in WAYS.values() for module in way.through} | set(OTHERS)


NOTES = """
from mcp_bridge import CallContext, resource, tool


@resource("note:///{name}")
def read(name: str) -> str:
    return f"the note {name}"


@tool
async def relay(uri: str, ctx: CallContext) -> str:
    \"\"\"Read a resource.\"\"\"
    return str((await ctx.fetch_resource(uri)).content)
"""
RESOURCE_POLICIES = {
    "allow": {"resources": "note:///public", "tools": "*"},
    "deny": {"resources": "note:///private"},
    "rate_limit": {"resources": "note:///private", "limit": "1/hour"},
    "redact": {"resources": "note:///private", "custom": {"note": "the note private"}},
    "audit": {"path": TRAIL},
}
"""The policies that apply to resources. After one read, each of them changes or records the next one."""


@pytest.mark.parametrize("policy", RESOURCE_POLICIES)
async def test_policies_reach_a_resource_in_every_way(tmp_path: Path, policy: str) -> None:
    (tmp_path / "tools.py").write_text(NOTES)
    source = {"type": "python", "path": "tools.py"}
    bridge = build_bridge(tmp_path, source, {policy: RESOURCE_POLICIES[policy]}, entries_as_tools=True)
    async with connect(bridge) as client:

        async def read(uri: str) -> list[str]:
            by_tool = await client.call_tool("read_resource", {"uri": uri})
            by_context = await client.call_tool("relay", {"uri": uri})
            try:
                by_method = str((await client.read_resource(uri)).contents)
            except MCPError as error:
                by_method = str(error)
            return [by_method, str(by_tool.content), str(by_context.content)]

        assert all("the note public" in text for text in await read("note:///public"))
        await client.call_tool("relay", {"uri": "note:///private"})
        texts = await read("note:///private")
    if policy == "audit":
        assert [record["name"] for record in read_records(tmp_path / TRAIL)].count("note:///private") == 4
    else:
        assert not any("the note private" in text for text in texts)


def test_every_policy_for_resources_is_in_the_matrix() -> None:
    options = {name: load_policy_type(name) for name in POLICIES}
    assert set(RESOURCE_POLICIES) == {name for name, model in options.items() if "resources" in model.model_fields}
