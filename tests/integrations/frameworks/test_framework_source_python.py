"""Tools of frameworks in a Python source: single ones are found, sets of tools are opened where they are named."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any

import anyio
import pytest

from mcp_bridge._app.bridge import AttachedSource, Bridge
from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._contracts.source import Offer
from mcp_bridge._integrations.frameworks import discovery
from mcp_bridge._sources.python import PythonSource
from mcp_bridge.testing import connect
from tests.kits.constants import TIMEOUT
from tests.kits.frameworks.shapes_boxes import Box, convert_box
from tests.kits.frameworks.shapes_kit import call_text
from tests.kits.paths import ROOT

pytestmark = pytest.mark.usefixtures("forgotten")
HEAVY = {"mcp", "mcp_types", "starlette", "uvicorn", "httpx2"}
BOX = "from tests.kits.frameworks.shapes_boxes import Box"
TEXT = """
    from mcp_bridge import tool
    from tests.kits.frameworks.shapes_crewai import BaseTool, CrewStructuredTool
    from tests.kits.frameworks.shapes_llamaindex import BaseToolSpec

    def made(name, answer="made"):
        return CrewStructuredTool(name=name, description="Made.", func=lambda: answer)

    one = again = made("one")
    _hidden = made("hidden")
    many = [made("first"), made("second"), made("one", "other")]

    class Words(BaseToolSpec):
        spec_functions = ("up",)
        def up(self):
            "Up."
            return "UP"

    words = Words()

    @tool
    def own() -> str:
        return "own"
"""


@pytest.fixture
def boxes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Convert toolboxes with `convert_box`, which knows the toolboxes of these tests."""
    monkeypatch.setattr(discovery, "convert_toolbox", convert_box)


def make_source(folder: Path, text: str = TEXT, tools: Sequence[str] = (), **options: Any) -> PythonSource:
    (folder / "theirs.py").write_text(dedent(text), "utf-8")
    return PythonSource("s", path=folder / "theirs.py", tools=tools, **options)


def list_names(offer: Offer) -> list[str]:
    return sorted(entry.name for entry in offer.tools)


def test_single_tools_of_a_module_are_published_once_each(tmp_path: Path) -> None:
    offer = make_source(tmp_path).load()
    assert list_names(offer) == ["one", "own"]
    assert offer.problems == []


def test_lists_are_published_if_they_are_named(tmp_path: Path) -> None:
    offer = make_source(tmp_path, tools=["many", "_hidden"]).load()
    assert list_names(offer) == ["first", "hidden", "one", "own", "second"]
    (problem,) = offer.problems
    assert problem.startswith("'theirs:many[2]' and 'theirs:one' both have a tool named 'one'")


def test_a_function_of_the_same_name_precedes_a_tool(tmp_path: Path) -> None:
    offer = make_source(tmp_path, TEXT + "\n    two = made('own')").load()
    assert list_names(offer) == ["one", "own"]
    assert "'the file itself' and 'theirs:two' both have a tool named 'own'" in offer.problems[0]


async def test_a_set_of_tools_is_served_if_it_is_named(tmp_path: Path) -> None:
    with anyio.fail_after(TIMEOUT):
        async with connect(Bridge(sources=[AttachedSource(source=make_source(tmp_path, tools=["words"]))])) as client:
            assert await call_text(client, "up") == "UP"
            assert await call_text(client, "own") == "own"
            assert await call_text(client, "one") == "made"


@pytest.mark.usefixtures("boxes")
async def test_a_named_set_of_tools_is_open_and_its_changes_are_published(tmp_path: Path) -> None:
    framework_source = make_source(tmp_path, f"{BOX}\nbox, other = Box('a'), Box('b')", ["box"])
    send, receive = anyio.create_memory_object_stream[Offer](10)
    with anyio.fail_after(TIMEOUT):
        async with send, receive, anyio.create_task_group() as tasks:
            tasks.start_soon(framework_source.run, send.send_nowait)
            assert list_names(await receive.receive()) == ["a"]
            theirs: Any = sys.modules["theirs"]
            box: Box = theirs.box
            assert box.log == ["open", "list"]
            box.change("a", "c")
            assert list_names(await receive.receive()) == ["a", "c"]
            tasks.cancel_scope.cancel()
    assert box.log[-1] == "close"
    assert theirs.other.log == []


@pytest.mark.usefixtures("boxes")
async def test_the_failure_to_open_the_only_set_of_tools_is_reported(tmp_path: Path) -> None:
    framework_source = make_source(tmp_path, f"{BOX}\nbox = Box('a', fails='open')", ["box"])
    offers: list[Offer] = []
    with anyio.fail_after(TIMEOUT), pytest.raises(SourceError, match="'theirs:box': RuntimeError: cannot open"):
        await framework_source.run(offers.append)
    assert offers == []


@pytest.mark.usefixtures("boxes")
async def test_after_an_edit_the_new_set_is_open_and_the_old_one_closed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = BOX + "\nbox = Box('{}')"
    framework_source = make_source(tmp_path, text.format("a"), ["box"], watch=True)
    send, receive = anyio.create_memory_object_stream[Offer](10)
    with caplog.at_level(logging.INFO, "mcp_bridge"), anyio.fail_after(TIMEOUT):
        async with send, receive, anyio.create_task_group() as tasks:
            tasks.start_soon(framework_source.run, send.send_nowait)
            assert list_names(await receive.receive()) == ["a"]
            old: Box = sys.modules["theirs"].box
            (tmp_path / "theirs.py").write_text(text.format("b"), "utf-8")
            assert list_names(await receive.receive()) == ["b"]
            new: Box = sys.modules["theirs"].box
            while "close" not in old.log:
                await anyio.lowlevel.checkpoint()
            assert new.log == ["open", "list"]
            tasks.cancel_scope.cancel()


async def test_an_edit_is_published_without_tools_that_cannot_be(tmp_path: Path) -> None:
    text = "from tests.kits.frameworks.shapes_llamaindex import FunctionTool\n"
    text += "def turn(): ...\none = FunctionTool(turn, {})\n"
    framework_source = make_source(tmp_path, text + "one.requires_context = True", watch=True)
    send, receive = anyio.create_memory_object_stream[Offer](10)
    with anyio.fail_after(TIMEOUT):
        async with send, receive, anyio.create_task_group() as tasks:
            tasks.start_soon(framework_source.run, send.send_nowait)
            assert "needs the context of a workflow" in (await receive.receive()).problems[0]
            (tmp_path / "theirs.py").write_text(f"{text}two = FunctionTool(print, {{}})\none.requires_context = True")
            offer = await receive.receive()
            assert list_names(offer) == ["print"]
            assert len(offer.problems) == 1
            tasks.cancel_scope.cancel()


# The command


def run(folder: Path, *args: str, importtime: bool = False) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *(["-X", "importtime"] if importtime else []), "-m", "mcp_bridge", *args]
    path = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
    if not (folder / "x.yaml").exists():
        (folder / "theirs.py").write_text(path + dedent(TEXT), "utf-8")
        (folder / "x.yaml").write_text(
            "sources:\n  - {type: framework, name: f, objects: ['theirs:many', 'theirs:words'], exclude: [one]}\n"
            "  - {type: python, name: p, path: theirs.py}\n",
            "utf-8",
        )
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def test_the_commands_list_validate_and_call_use_tools_of_frameworks(tmp_path: Path) -> None:
    assert run(tmp_path, "validate", "x.yaml").stdout == "5 tools, no problems\n"
    output = run(tmp_path, "list", "x.yaml").stdout
    assert all(name in output for name in ("first", "second", "up", "one", "own"))
    assert run(tmp_path, "call", "up", "--file", "x.yaml").stdout == "UP\n"


@pytest.mark.parametrize("args", [["validate", "x.yaml"], ["list", "x.yaml"]])
def test_frameworks_do_not_make_a_command_import_the_sdk(tmp_path: Path, args: list[str]) -> None:
    process = run(tmp_path, *args, importtime=True)
    assert process.returncode == 0, process.stderr
    lines = [line for line in process.stderr.splitlines() if line.startswith("import time:")]
    assert {line.rpartition("|")[2].strip().partition(".")[0] for line in lines} & HEAVY == set()
