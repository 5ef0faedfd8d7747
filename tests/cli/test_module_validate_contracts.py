"""`module validate` requires of a module what its contract does, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kits.amplifier.documents_pieces import SUMMARY
from tests.kits.amplifier.documents_reading import examples
from tests.kits.cli.examining import Module, Result, examine
from tests.kits.cli.validated_modules import BODIES, project, source

STRICT = """
import asyncio
from mcp_bridge.amplifier import ToolResult


class Strict:
    name, description = "strict", "Runs a command."
    input_schema = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}

    async def execute(self, input):
        FIRST
        return ToolResult(output="ran")


async def mount(coordinator, config):
    await coordinator.mount("tools", Strict())
"""
AS_IN_TOOL_BASH = """
class BashTool:
    name, description = "bash", "Run a command."
    input_schema = {
        "type": "object",
        "properties": {"command": {"type": "string"}, "timeout": {"type": "integer", "default": 30}},
        "required": ["command"],
    }

    async def execute(self, input):
        command = input.get("command")
        if not command:
            return ToolResult(success=False, error={"message": "Command is required"})
        if any(word in command.lower() for word in ("rm -rf /",)):
            return ToolResult(success=False, error={"message": "denied"})
        logger.info("runs %s within %s", command, input.get("timeout", 30) + 0)
        return ToolResult(success=True, output={"stdout": "", "returncode": 0})


async def mount(coordinator, config=None):
    coordinator.register_contributor("observability.events", "bash", lambda: ["bash:ran"])
    await coordinator.mount("tools", BashTool(), name="bash")
"""


def examine_one(folder: Path, text: str, kind: str | None = None) -> Result:
    """The result for a module with this text."""
    return examine({"one": Module(path=project(folder / "sample", text), kind=kind)}, folder)["one"]


@pytest.mark.parametrize(
    ("first", "problem"),
    [
        ("input['command'].strip()", "raised KeyError"),
        ("if 'command' not in input: return 'no command'", "returned a str"),
        ("if 'command' not in input: await asyncio.sleep(3600)", "did not return in time"),
    ],
)
def test_what_a_tool_does_with_invalid_arguments_is_a_warning(tmp_path: Path, first: str, problem: str) -> None:
    path = project(tmp_path / "sample", STRICT.replace("FIRST", first))
    found = examine({"one": Module(path=path, timeout="1")}, tmp_path)["one"]
    assert found.wrong[0] == []
    assert "tool.validates" in found.wrong[1]
    assert f"'strict' with {{}}, which are invalid, {problem}" in found.item("tool.validates").found


def test_a_tool_that_trusts_its_schema_as_public_ones_do_passes_with_a_warning(tmp_path: Path) -> None:
    head = source("tool").replace(BODIES["tool"], "")
    found = examine_one(tmp_path, head + AS_IN_TOOL_BASH)
    assert found.wrong == ([], ["tool.validates"])


def test_the_example_of_the_tool_contract_meets_every_requirement(tmp_path: Path) -> None:
    [example] = [each for each in examples(SUMMARY) if "async def mount" in each.text]
    work = "    async def _do_work(self, input):\n        return 'done'\n\nasync def mount"
    text = example.text.replace("async def mount", work)
    found = examine_one(
        tmp_path, f"from typing import Any\nfrom mcp_bridge.amplifier import ToolResult\n{text}", "tool"
    )
    assert found.wrong[0] == []


@pytest.mark.parametrize("count", range(4, 9))
def test_a_context_that_keeps_the_last_messages_separates_results_from_their_calls(tmp_path: Path, count: int) -> None:
    naive = f"return self._messages[:1] + self._messages[-{count}:]\n"
    text = source("context").replace("kept, used, start = [], 0, len(self._messages)\n", naive)
    found = examine_one(tmp_path, text)
    assert found.wrong[0] == ["context.pairs"]
