"""Names of tools: names of other types, and common names of two plans."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_bridge import open_bridge
from tests.kits.amplifier.amplifier_plans import BOTH_HOSTS, HEADS, ServedPlan

TOOLS = """
class Tool:
    description = "A tool."
    input_schema = {"type": "object"}

    def __init__(self, name):
        self.name = name

    async def execute(self, input):
        return "ok"

async def mount(coordinator, config):
    MOUNT
    await coordinator.mount("tools", Tool("good"))
"""


@BOTH_HOSTS
@pytest.mark.parametrize(
    ("module", "mount"),
    [
        ("named", 'await coordinator.mount("tools", Tool(7))'),
        ("keyed", 'await coordinator.mount("tools", Tool(7), name="seven")'),
        ("direct", 'coordinator.mount_points["tools"][7] = Tool(7)'),
    ],
)
async def test_a_tool_whose_name_is_not_text_is_left_out(module: str, mount: str, host: str, tmp_path: Path) -> None:
    server = ServedPlan(tmp_path, {f"{module}_by_number_{host}": TOOLS.replace("MOUNT", mount)})
    async with server.connect() as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["good"]
    [problem] = server.problems
    assert "its name is not text, but int" in problem


PAIR = """
async def mount(coordinator, config):
    for name in config["names"]:
        await coordinator.mount("tools", MockTool(name, config["result"]))
"""
COLLIDING = """
sources:
  - type: amplifier
    name: first
    plan: {{tools: [{{module: pair, source: {file}, config: {{names: [same, one], result: first}}}}]}}
  - type: amplifier
    name: second
    {isolation}
    plan: {{tools: [{{module: pair, source: {file}, config: {{names: [same, two], result: second}}}}]}}
"""


@pytest.mark.parametrize("isolation", ["tags: []", "isolation: process"], ids=["here", "isolated"])
async def test_a_name_in_two_plans_excludes_one_tool(isolation: str, tmp_path: Path) -> None:
    # A module is imported only once in a process.
    file = f"pair_{len(isolation)}.py"
    (tmp_path / file).write_text(HEADS["native"] + PAIR)
    (tmp_path / "plans.yaml").write_text(COLLIDING.format(isolation=isolation, file=file))
    async with open_bridge(tmp_path / "plans.yaml") as bridge:
        assert sorted(tool.name for tool in bridge.registry.list()) == ["one", "same", "two"]
        assert (await bridge.registry.ainvoke("same", {})).data == "first"
        assert bridge.problems["first"] == []
        [problem] = bridge.problems["second"]
        assert problem == (
            "Tool 'same' comes from both source 'first' and source 'second'. Give one of the sources a prefix, or the "
            "tool an alias. That of source 'second' is not published."
        )


async def test_a_function_takes_precedence_over_a_tool_of_a_plan(tmp_path: Path) -> None:
    (tmp_path / "pair_of_plan.py").write_text(HEADS["native"] + PAIR)
    (tmp_path / "functions.py").write_text("from mcp_bridge import tool\n\n@tool\ndef same() -> str: return 'python'\n")
    sources = COLLIDING.format(isolation="", file="pair_of_plan.py").partition("  - type: amplifier\n    name: second")[
        0
    ]
    (tmp_path / "plans.yaml").write_text(f"{sources}  - {{type: python, path: functions.py}}\n")
    async with open_bridge(tmp_path / "plans.yaml") as bridge:
        assert sorted(tool.name for tool in bridge.registry.list()) == ["one", "same"]
        assert (await bridge.registry.ainvoke("same", {})).data == "python"
        assert "comes from both" in bridge.problems["first"][0]
