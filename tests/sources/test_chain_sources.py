"""Chains in Python files: published once, and only if they can run."""

from __future__ import annotations

import logging
import textwrap
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge import ChainStep, ToolChain, ToolEntry, ToolRegistry
from mcp_bridge._app.factory import build_from_file
from mcp_bridge._sources.python import PythonSource
from mcp_bridge.sources import Offer
from mcp_bridge.testing import connect
from tests.kits.wire.speaking import build_registry, call, get_text, list_tools

HEAD = """
from mcp_bridge.tool_use import ChainStep, ToolChain, ToolRegistry, tool
registry = ToolRegistry()
@tool("page", registry=registry)
def page(data): return {"text": "one two"}
"""


def load(folder: Path, **files: str) -> Offer:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text))
    return PythonSource("s", path=folder).load()


def list_tool_names(offer: Offer) -> list[str]:
    return sorted(entry.name for entry in offer.tools)


BROKEN = {
    "no steps": ("", "the chain has no steps"),
    "a missing tool": (
        ".add_step(ChainStep('page')).add_step(ChainStep('pages'))",
        "step 2 of 2 of the chain calls 'pages', which is not a tool of the chain's registry",
    ),
    "a step without a tool": (".add_step(ChainStep(''))", "step 1 of 1 of the chain names no tool"),
}


@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.parametrize("definition", ["chain = ToolChain(registry){}", "it = ToolChain(registry){}.as_tool('chain')"])
def test_a_chain_that_can_never_run_is_reported_and_not_published(tmp_path: Path, broken: str, definition: str) -> None:
    steps, problem = BROKEN[broken]
    offer = load(tmp_path, tools=HEAD + definition.format(steps))
    assert list_tool_names(offer) == ["page"]
    assert offer.problems == [f"tool 'chain' is not published: {problem}"]


def test_a_chain_that_is_registered_is_checked_too(tmp_path: Path) -> None:
    offer = load(tmp_path, tools=HEAD + "registry.register(ToolChain(registry).as_tool('chain'))")
    assert list_tool_names(offer) == ["page"]
    assert offer.problems == ["tool 'chain' is not published: the chain has no steps"]


def test_a_chain_of_a_chain_that_cannot_run_cannot_run(tmp_path: Path) -> None:
    text = """
registry.register(ToolChain(registry).as_tool("inner"))
outer = ToolChain(registry).add_step(ChainStep("inner"))
again = ToolChain(registry).add_step(ChainStep("page")).add_step(ChainStep("forever"))
registry.register(again.as_tool("forever"))
"""
    offer = load(tmp_path, tools=HEAD + text)
    assert list_tool_names(offer) == ["page"]
    assert sorted(offer.problems) == [
        "tool 'forever' is not published: step 2 of 2 of the chain calls 'forever', which calls this chain again, "
        "without end",
        "tool 'inner' is not published: the chain has no steps",
        "tool 'outer' is not published: step 1 of 1 of the chain calls 'inner': the chain has no steps",
    ]


def test_a_chain_may_use_tools_that_another_file_of_the_folder_registers(tmp_path: Path) -> None:
    chain = "chain = ToolChain(registry).add_step(ChainStep('late'))"
    late = "from a import registry, tool\n@tool('late', registry=registry)\ndef late(data): return 1"
    offer = load(tmp_path, a=HEAD + chain, b=late)
    assert offer.problems == []
    assert list_tool_names(offer) == ["chain", "late", "page"]


def test_a_chain_that_is_made_a_tool_is_not_published_under_its_variable_too(tmp_path: Path) -> None:
    text = """
chain = ToolChain(registry).add_step(ChainStep("page"))
registry.register(chain.as_tool("read", output="text"))
other = ToolChain(registry).add_step(ChainStep("page"))
same = other
"""
    offer = load(tmp_path, tools=HEAD + text)
    assert list_tool_names(offer) == ["other", "page", "read", "same"]


THEIRS = """
class Checked:
    valid, errors = {valid}, {errors}
class Chain:
    steps = ["first"]
    def add_step(self, step): ...
    def execute(self, data): ...
    def validate(self): return Checked()
chain = Chain()
"""


@pytest.mark.parametrize(
    ("valid", "errors", "problems"),
    [
        (True, [], []),
        (False, ["Step 0: gone.", "Step 1: gone."], ["Step 0: gone.", "Step 1: gone."]),
        (False, [], ["its own validation fails"]),
    ],
)
def test_a_chain_of_another_package_is_validated(
    tmp_path: Path, valid: Any, errors: list[str], problems: list[str]
) -> None:
    offer = load(tmp_path, tools=THEIRS.format(valid=valid, errors=errors), more=HEAD)
    assert offer.problems == [f"tool 'chain' is not published: {problem}" for problem in problems]
    assert list_tool_names(offer) == (["page"] if problems else ["chain", "page"])


def test_a_chain_of_another_package_whose_validation_raises_is_published(tmp_path: Path) -> None:
    text = THEIRS.format(valid=True, errors=[]).replace("return Checked()", "return 1 / 0")
    assert list_tool_names(load(tmp_path, tools=text)) == ["chain"]


async def test_the_bridge_reports_the_chain_and_serves_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "tools.py"
    path.write_text(HEAD + "chain = ToolChain(registry)")
    bridge = build_from_file(path)
    async with connect(bridge) as client:
        assert [tool["name"] for tool in await list_tools(client)] == ["page"]
    [problems] = bridge.problems.values()
    assert problems == ["tool 'chain' is not published: the chain has no steps"]


async def test_a_chain_of_a_served_registry_that_cannot_run_is_logged_at_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry = build_registry(ToolEntry("page", "", lambda data: {}))
    registry.register(ToolChain(ToolRegistry()).add_step(ChainStep("page")).as_tool("chain"))
    with caplog.at_level(logging.WARNING):
        async with connect(registry) as client:
            result = await call(client, "chain")
    line = "tool 'chain': every call will fail: step 1 of 1 of the chain calls 'page', which is not a tool"
    assert [record.levelname for record in caplog.records if line in record.getMessage()] == ["WARNING"]
    assert result["isError"]
    assert get_text(result).startswith("This tool is a chain of tools that cannot run.")
    assert result["_meta"]["mcp-bridge/code"] == "chain_invalid"
