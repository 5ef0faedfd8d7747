"""`type: framework`: objects named in the settings, open toolboxes, and unusable objects."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import anyio
import pytest

from mcp_bridge._app.bridge import AttachedSource, Bridge
from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._contracts.errors import ConfigError, SourceError
from mcp_bridge._contracts.source import Offer, SourceContext
from mcp_bridge._integrations.frameworks import discovery
from mcp_bridge._integrations.frameworks.source import FrameworkOptions, FrameworkSource
from mcp_bridge._settings import load
from mcp_bridge.testing import connect
from tests.kits.constants import TIMEOUT
from tests.kits.frameworks.shapes_boxes import Box, convert_box, entry
from tests.kits.frameworks.shapes_kit import call_text

pytestmark = pytest.mark.usefixtures("forgotten")
CREW = """
    from pydantic import BaseModel
    from tests.kits.frameworks.shapes_crewai import BaseTool

    class Word(BaseModel):
        word: str

    class Turn(BaseTool):
        name: str = "turn"
        description: str = "Turns."
        args_schema: object = Word
        def _run(self, word):
            return word[::-1]

    one = Turn()
"""


@pytest.fixture
def boxes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Convert toolboxes with `convert_box`, which knows the toolboxes of these tests."""
    monkeypatch.setattr(discovery, "convert_toolbox", convert_box)


def write_manual(folder: Path, text: str, name: str = "theirs") -> Path:
    (folder / f"{name}.py").write_text(dedent(CREW) + dedent(text), "utf-8")
    return folder


def make_module(folder: Path, **names: Any) -> Path:
    """Register a module with these objects, and return its folder."""
    (folder / "held.py").write_text("", "utf-8")
    new_module = type(sys)("held")
    new_module.__file__ = str(folder / "held.py")
    vars(new_module).update(names)
    sys.modules["held"] = new_module
    return folder


async def get_offer(folder: Path, *objects: str, **options: Any) -> Offer:
    """Return the offer of a source without toolboxes."""
    offers: list[Offer] = []
    with anyio.fail_after(TIMEOUT):
        await FrameworkSource("s", FrameworkOptions(objects=objects, **options), SourceContext(directory=folder)).run(
            offers.append
        )
    (offer,) = offers
    return offer


@contextlib.asynccontextmanager
async def run_source(folder: Path, *objects: str, **options: Any) -> AsyncIterator[Callable[[], Any]]:
    """Run a source, and yield a function that waits for its next offer."""
    send, receive = anyio.create_memory_object_stream[Offer](100)
    source = FrameworkSource("s", FrameworkOptions(objects=objects, **options), SourceContext(directory=folder))
    with anyio.fail_after(TIMEOUT):
        async with send, receive, anyio.create_task_group() as tasks:
            tasks.start_soon(source.run, send.send_nowait)
            yield receive.receive
            tasks.cancel_scope.cancel()


def list_names(offer: Offer) -> list[str]:
    return [entry.name for entry in offer.tools]


# The target of a reference


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("", "theirs:one"),
        ("", "theirs:Turn"),
        ("many = [one]", "theirs:many"),
        ("many = {'a': one}", "theirs:many"),
        ("many = ([one], one)", "theirs:many"),
        ("def make(): return one", "theirs:make"),
        ("def make(size=3, *rest, **more): return [one]", "theirs:make"),
        ("async def make(): return [one]", "theirs:make"),
        ("class Maker:\n    async def make(self): return one\nmaker = Maker()", "theirs:maker.make"),
    ],
)
async def test_a_reference_is_a_tool_a_list_or_a_function(tmp_path: Path, text: str, reference: str) -> None:
    offer = await get_offer(write_manual(tmp_path, text), reference)
    assert list_names(offer) == ["turn"]
    assert offer.problems == []


async def test_an_object_that_is_named_twice_counts_once(tmp_path: Path) -> None:
    offer = await get_offer(write_manual(tmp_path, "many = [one, one]"), "theirs:one", "theirs:many", "theirs:one")
    assert (list_names(offer), offer.problems) == (["turn"], [])


async def test_of_two_tools_of_one_name_the_first_is_published(tmp_path: Path) -> None:
    text = "two = Turn(description='Second.')\nsame = [Turn(), Turn()]"
    offer = await get_offer(write_manual(tmp_path, text), "theirs:one", "theirs:two")
    assert [tool.description for tool in offer.tools] == ["Turns."]
    assert offer.problems == [
        "'theirs:one' and 'theirs:two' both have a tool named 'turn'. The first is published. Rename or remove one"
    ]
    offer = await get_offer(tmp_path, "theirs:same")
    assert "'theirs:same[0]' and 'theirs:same[1]'" in offer.problems[0]


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("theirs", "write it as module:attribute"),
        ("missing:one", "No module named 'missing'"),
        ("theirs:oen", "module 'theirs' has no 'oen'. Did you mean 'one'?"),
        ("theirs:number", "is not a tool of a framework but int. Supported are tools of LangChain, LlamaIndex"),
        ("theirs:empty", "is not a tool of a framework but empty (list)"),
        ("theirs:needy", "is not a tool of a framework but function"),
        ("theirs:Needy", "the class theirs.Needy, which cannot be called without arguments"),
        ("theirs:wrong", "'theirs:wrong()' is not a tool of a framework but int"),
        ("theirs:broken", "'theirs:broken' failed when it was called: RuntimeError: no luck"),
        ("theirs:mock", "is not a tool of a framework but unittest.mock.MagicMock"),
        ("theirs:rude.it", "'it' of 'rude' cannot be read: RuntimeError: do not ask"),
        ("theirs:mixed", "'theirs:mixed[1]' is not a tool of a framework but str"),
        ("bad:one", "bad.py:1: 'bad' cannot be imported: SyntaxError"),
        ("raises:one", "raises.py:2: 'raises' cannot be imported: ZeroDivisionError"),
    ],
)
async def test_an_object_that_cannot_be_imported_does_not_affect_others(
    tmp_path: Path, reference: str, words: str
) -> None:
    text = """
        from unittest.mock import MagicMock
        number, empty, mock, mixed = 3, [], MagicMock(), [one, "text"]
        def needy(what): ...
        def wrong(): return 3
        def broken(): raise RuntimeError("no luck")
        class Needy:
            def __init__(self, what): ...
        class Rude:
            @property
            def it(self): raise RuntimeError("do not ask")
        rude = Rude()
    """
    (tmp_path / "bad.py").write_text("def", "utf-8")
    (tmp_path / "raises.py").write_text("a = 1\nb = a / 0\n", "utf-8")
    offer = await get_offer(write_manual(tmp_path, text), reference, "theirs:one")
    assert list_names(offer) == ["turn"]
    (problem,) = offer.problems
    assert words in problem
    assert reference.partition(":")[0] in problem


async def test_a_source_without_any_tool_fails_with_all_reasons(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as exc_info:
        await get_offer(write_manual(tmp_path, ""), "theirs:no", "gone:one")
    first, second = str(exc_info.value).splitlines()
    assert "'theirs:no'" in first
    assert "'gone:one'" in second or "gone" in second


async def test_a_function_that_makes_tools_has_a_time_limit(tmp_path: Path) -> None:
    text = "import anyio\nasync def slow(): await anyio.sleep_forever()"
    offer = await get_offer(write_manual(tmp_path, text), "theirs:slow", "theirs:one", start_timeout=0.5)
    assert list_names(offer) == ["turn"]
    assert "'theirs:slow' has made nothing within 0.5 seconds" in offer.problems[0]


async def test_output_of_a_module_goes_to_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    await get_offer(write_manual(tmp_path, "print('hello')"), "theirs:one")
    assert capsys.readouterr() == ("", "hello\n")


# Sets of tools


@pytest.mark.usefixtures("boxes")
async def test_a_set_of_tools_is_open_while_the_source_runs(tmp_path: Path) -> None:
    box = Box("a", "b")
    async with run_source(make_module(tmp_path, box=box), "held:box") as offers:
        assert list_names(await offers()) == ["a", "b"]
        assert box.log == ["open", "list"]
    assert box.log == ["open", "list", "close"]


@pytest.mark.usefixtures("boxes")
async def test_a_change_of_one_set_is_published_with_the_others(tmp_path: Path) -> None:
    box, second_box = Box("a"), Box("x")
    async with run_source(
        make_module(tmp_path, box=box, other=second_box, tool=entry("t")), "held:box", "held:other", "held:tool"
    ) as offers:
        assert list_names(await offers()) == ["t", "a", "x"]
        box.change("a", "b")
        assert list_names(await offers()) == ["t", "a", "b", "x"]


@pytest.mark.usefixtures("boxes")
async def test_tools_of_a_set_that_cannot_be_listed_again_stay_published(tmp_path: Path) -> None:
    box = Box("a")
    async with run_source(make_module(tmp_path, box=box), "held:box") as offers:
        await offers()
        box.change("b", fails="list")
        offer = await offers()
        assert list_names(offer) == ["a"]
        assert offer.problems == ["'held:box': RuntimeError: cannot list: its tools stay as they were"]
        box.change("c")
        offer = await offers()
        assert (list_names(offer), offer.problems) == (["c"], [])


@pytest.mark.usefixtures("boxes")
@pytest.mark.parametrize("what", ["open", "list"])
async def test_a_set_of_tools_that_fails_does_not_affect_others(tmp_path: Path, what: str) -> None:
    box, second_box = Box("a", fails=what), Box("x")
    async with run_source(make_module(tmp_path, box=box, other=second_box), "held:box", "held:other") as offers:
        offer = await offers()
        assert list_names(offer) == ["x"]
        assert offer.problems == [f"'held:box': RuntimeError: cannot {what}"]


@pytest.mark.usefixtures("boxes")
@pytest.mark.parametrize("what", ["open", "list"])
async def test_opening_a_set_of_tools_has_a_time_limit(tmp_path: Path, what: str) -> None:
    box, second_box = Box("a", hangs=what), Box("x")
    path = make_module(tmp_path, box=box, other=second_box)
    async with run_source(path, "held:box", "held:other", start_timeout=3) as offers:
        offer = await offers()
        assert list_names(offer) == ["x"]
        assert "'held:box' was not opened and listed within 3 seconds" in offer.problems[0]


@pytest.mark.usefixtures("boxes")
async def test_tools_of_a_set_that_ends_are_removed(tmp_path: Path) -> None:
    box, second_box = Box("a"), Box("x")
    async with run_source(make_module(tmp_path, box=box, other=second_box), "held:box", "held:other") as offers:
        assert list_names(await offers()) == ["a", "x"]
        box.change("a", fails="end")
        offer = await offers()
        assert list_names(offer) == ["x"]
        assert offer.problems == ["'held:box': RuntimeError: the server has gone"]


@pytest.mark.usefixtures("boxes")
async def test_a_set_of_tools_that_cannot_close_does_not_affect_others(tmp_path: Path) -> None:
    box = Box("a", fails="close")
    async with run_source(make_module(tmp_path, box=box), "held:box") as offers:
        await offers()
    assert box.log[-1] == "close"


@pytest.mark.usefixtures("boxes")
async def test_a_source_fails_if_its_only_set_of_tools_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="'held:box': RuntimeError: cannot open"):
        await get_offer(make_module(tmp_path, box=Box("a", fails="open")), "held:box")


# UTCP manuals


MANUAL = {
    "utcp_version": "1.0.1",
    "tools": [
        {
            "name": "echo",
            "inputs": {"type": "object", "properties": {"words": {"type": "string"}}, "required": ["words"]},
            "tool_call_template": {
                "call_template_type": "cli",
                "commands": [{"command": "echo UTCP_ARG_words_UTCP_END"}],
            },
        }
    ],
}


async def test_an_invalid_manual_does_not_affect_others(tmp_path: Path) -> None:
    (tmp_path / "manual.json").write_text(json.dumps(MANUAL), "utf-8")
    (tmp_path / "wrong.json").write_text("{", "utf-8")
    bridge = write_settings(
        write_manual(tmp_path, ""), "    utcp: [manual.json, wrong.json, gone.json]\n    objects: ['theirs:one']\n"
    )
    async with connect(bridge) as client:
        assert await call_text(client, "echo", words="a  b") == "a  b"
        assert await call_text(client, "turn", word="ab") == "ba"
    wrong, missing = bridge.problems["framework"]
    assert str(tmp_path / "wrong.json") in wrong
    assert str(tmp_path / "gone.json") in missing


# From settings to a client


@pytest.mark.usefixtures("boxes")
async def test_clients_call_tools_and_see_changes(tmp_path: Path) -> None:
    box = Box("a")
    source = FrameworkSource(
        "s",
        FrameworkOptions(objects=["held:box", "theirs:one"]),
        SourceContext(directory=make_module(write_manual(tmp_path, ""), box=box)),
    )
    with anyio.fail_after(TIMEOUT):
        async with connect(Bridge(sources=[AttachedSource(source=source)])) as client:
            assert await call_text(client, "turn", word="ab") == "ba"
            assert await call_text(client, "a") == "a"
            box.change("b")
            while [tool.name for tool in (await client.list_tools(cache_mode="refresh")).tools] != ["b", "turn"]:
                await anyio.lowlevel.checkpoint()


def write_settings(folder: Path, options: str) -> Bridge:
    file = folder / "settings.yaml"
    file.write_text(f"sources:\n  - type: framework\n{options}", "utf-8")
    return build_from_settings(load(file, {}))


async def test_settings_name_objects_that_are_importable_from_their_folder(tmp_path: Path) -> None:
    bridge = write_settings(write_manual(tmp_path, ""), "    objects: ['theirs:one']\n")
    async with connect(bridge) as client:
        assert await call_text(client, "turn", word="ab") == "ba"


def test_settings_without_objects_are_rejected_with_their_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="give objects, utcp, or both") as exc_info:
        write_settings(tmp_path, "    start_timeout: 5s\n")
    assert exc_info.value.line == 2
