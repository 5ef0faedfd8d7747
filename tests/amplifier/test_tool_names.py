"""Tools whose names are not text."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kits.amplifier.amplifier_plans import BOTH_HOSTS, Served

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
    served = Served(tmp_path, {f"{module}_by_number_{host}": TOOLS.replace("MOUNT", mount)})
    async with served.client() as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["good"]
    [problem] = served.problems
    assert "its name is not text, but int" in problem
