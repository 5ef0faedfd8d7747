"""The name of an agent's tool, next to the tools of its modules and of other sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_bridge import open_bridge
from mcp_bridge.testing import connect
from tests.integrations.amplifier.agent.test_agent_tool import name_module
from tests.kits.amplifier.amplifier_modules import write_files
from tests.kits.amplifier.amplifier_plans import HEADS
from tests.kits.hooks.hooks_kit import ScriptedUser, get_texts

PLAN = """
    plan:
      session: {orchestrator: loop-basic, context: context-simple}
      providers:
        - {module: provider-scripted, config: {responses: [One.]}}
      hooks:
        - {module: MODULE, source: MODULE.py}
"""
ASKS = """
async def mount(coordinator, config):
    async def ask(event, data):
        return HookResult(action="ask_user")

    coordinator.hooks.register("prompt:submit", ask)
"""
TOOLS = """
from mcp_bridge import tool

@tool
def run_agent() -> str:
    \"\"\"Return a text.\"\"\"
    return "no agent"
"""


def write_settings(folder: Path, sources: str) -> Path:
    """Write a settings file, and replace each line `    PLAN` by the key `plan` of `PLAN`, with an agent and a hook.

    The hook asks the user for approval. Each test has a module of another name, because modules stay imported.
    """
    name = name_module(folder, "asks")
    settings = sources.replace("    PLAN\n", PLAN).replace("MODULE", name)
    write_files(folder, {f"{name}.py": HEADS["native"] + ASKS, "tools.py": TOOLS, "agent.yaml": settings})
    return folder / "agent.yaml"


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("{type: python, path: tools.py}", "source 'tools' and source 'second'"),
        ("type: amplifier\n    PLAN", "source 'amplifier' and source 'second'"),
    ],
    ids=["tool", "agent"],
)
async def test_an_agent_whose_name_another_source_has_is_not_published(source: str, names: str, tmp_path: Path) -> None:
    sources = f"sources:\n  - {source}\n  - type: amplifier\n    name: second\n    PLAN\n"
    async with open_bridge(write_settings(tmp_path, sources)) as bridge:
        [problem] = bridge.problems["second"]
        assert f"'run_agent' comes from both {names}. Give one of the sources a prefix" in problem
        assert problem.endswith("That of source 'second' is not published.")


async def test_agents_with_different_names_or_prefixes_do_not_collide(tmp_path: Path) -> None:
    sources = """sources:
  - type: amplifier
    PLAN
  - type: amplifier
    name: second
    alias: {run_agent: ask_librarian}
    PLAN
  - type: amplifier
    name: third
    prefix: lib
    PLAN
"""
    names, user = ["ask_librarian", "lib__run_agent", "run_agent"], ScriptedUser("Allow once")
    async with (
        open_bridge(write_settings(tmp_path, sources)) as bridge,
        connect(bridge, elicitation_callback=user) as client,
    ):
        assert [tool.name for tool in (await client.list_tools()).tools] == names
        for name in names:
            assert get_texts(await client.call_tool(name, {"task": "Count."}))[0] == "One."
    # Questions have the published names, too.
    assert user.prompts == [f"Allow '{name}' to continue (prompt:submit)?" for name in names]
