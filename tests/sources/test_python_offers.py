"""Resources and prompts of Python files: found next to the tools, each once, and read again after edits."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_bridge._contracts.source import Offer
from mcp_bridge._sources.python import PythonSource
from tests.kits.wire.speaking import get_offer_after_edit

MARKED = """
    from mcp_bridge import prompt, resource, tool

    @resource("notes://today")
    def today() -> str:
        return "today"

    @resource("notes://{day}")
    def of_day(day: str) -> str:
        return day

    @prompt
    def plan(day: str) -> str:
        return f"Plan {day}"
"""
REGISTRY = """
    from mcp_bridge import ToolRegistry, prompt, resource, tool
    registry = ToolRegistry()

    @resource("notes://today", registry=registry)
    def today() -> str:
        return "today"

    resource("notes://{day}", registry=registry)(lambda day: day)

    @prompt(registry=registry)
    def plan(day: str) -> str:
        return f"Plan {day}"
"""
VALUES = """
    from mcp_bridge.sources import PromptEntry, ResourceEntry, ResourceTemplate
    one = ResourceEntry("notes://today", lambda data: "today")
    many = ResourceTemplate("notes://{day}", lambda data: data["day"])
    plan_prompt = PromptEntry("plan", lambda data: f"Plan {data['day']}")
    again = one
"""


@pytest.fixture(autouse=True)
def interpreter() -> Iterator[None]:
    """Remove the modules imported by a test."""
    modules, path = set(sys.modules), list(sys.path)
    yield
    sys.path[:] = path
    for name, module in list(sys.modules.items()):
        if name not in modules and "site-packages" not in (getattr(module, "__file__", None) or "site-packages"):
            del sys.modules[name]


def write(path: Path, text: str) -> Path:
    path.write_text(textwrap.dedent(text))
    return path


def load(path: Path) -> Offer:
    return PythonSource("s", path=path).load()


def map_names(offer: Offer) -> tuple[list[str], list[str], list[str], list[str]]:
    return (
        [entry.name for entry in offer.tools],
        [entry.uri for entry in offer.resources],
        [entry.uri_template for entry in offer.templates],
        [entry.name for entry in offer.prompts],
    )


@pytest.mark.parametrize("text", [MARKED, REGISTRY, VALUES], ids=["marked", "registry", "values"])
async def test_resources_and_prompts_are_published_each_once(text: str, tmp_path: Path) -> None:
    offers: list[Offer] = []
    await PythonSource("s", path=write(tmp_path / "notes.py", text)).run(offers.append)
    [offer] = offers
    assert map_names(offer) == ([], ["notes://today"], ["notes://{day}"], ["plan"])
    assert offer.problems == []
    answers = [
        entry.handler({"day": "x"} if entry not in offer.resources else {"uri": "notes://today"})
        for entry in (*offer.resources, *offer.templates, *offer.prompts)
    ]
    assert answers == ["today", "x", "Plan x"]


def test_a_function_can_be_all_of_them(tmp_path: Path) -> None:
    text = """
        from mcp_bridge import prompt, resource, tool

        @tool
        @prompt("say")
        @resource("words://{word}")
        def say(word: str) -> str:
            return word
    """
    assert map_names(load(write(tmp_path / "words.py", text))) == (["say"], [], ["words://{word}"], ["say"])


def test_files_of_a_folder_are_published_together_and_shared_entries_once(tmp_path: Path) -> None:
    write(tmp_path / "notes.py", MARKED)
    write(tmp_path / "more.py", "from notes import today, plan\nfrom mcp_bridge import tool\n@tool\ndef add(): ...\n")
    assert map_names(load(tmp_path)) == (["add"], ["notes://today"], ["notes://{day}"], ["plan"])


def test_two_entries_with_the_same_name_are_both_offered_to_the_registry(tmp_path: Path) -> None:
    write(tmp_path / "notes.py", MARKED)
    write(tmp_path / "others.py", MARKED)
    offer = load(tmp_path)
    assert (len(offer.resources), len(offer.templates), len(offer.prompts)) == (2, 2, 2)


async def test_a_broken_file_removes_only_its_own_entries(tmp_path: Path) -> None:
    write(tmp_path / "broken.py", "def broken(:\n")
    write(tmp_path / "notes.py", MARKED)
    offers: list[Offer] = []
    await PythonSource("s", path=tmp_path).run(offers.append)
    assert map_names(offers[0]) == ([], ["notes://today"], ["notes://{day}"], ["plan"])
    assert "broken.py:1: SyntaxError" in offers[0].problems[0]


def test_only_a_module_without_any_entries_is_reported_as_empty(tmp_path: Path) -> None:
    offer = load(write(tmp_path / "empty.py", "x = 1"))
    assert map_names(offer) == ([], [], [], [])
    [problem] = offer.problems
    assert problem.endswith(
        "empty.py: no tools found. Mark a function with @tool, @resource or @prompt, or name it in the settings"
    )
    for suffix, text in {
        "r": "ResourceEntry('a://b'",
        "t": "ResourceTemplate('a://{b}'",
        "p": "PromptEntry('p'",
    }.items():
        file = write(
            tmp_path / f"only_{suffix}.py",
            f"from mcp_bridge import sources\nentry = sources.{text}, lambda data: 'ok')",
        )
        assert load(file).problems == []


def test_objects_that_only_look_like_resources_or_prompts_are_ignored(tmp_path: Path) -> None:
    text = """
        from unittest import mock
        from mcp_bridge import tool
        from mcp_bridge.sources import ResourceEntry
        class Everything:
            def __getattr__(self, name): return lambda *args: None
        class Rude:
            def __call__(self): ...
            def __getattr__(self, name): raise RuntimeError("do not ask")
        class Registry:
            resources, templates, prompts = "text", None, [1, "a"]
            def list(self): return []
            def list_names(self): return []
            def register(self, entry): ...
            def get(self, name): ...
        class Odd(Registry):
            @property
            def resources(self): raise RuntimeError("do not ask")
        everything, rude, mocked, registry, odd = Everything(), Rude(), mock.MagicMock(), Registry(), Odd()
        def function(): ...
        function.resource_entry = function.prompt_entry = "text"
        Marked = type("Marked", (), {"resource_entry": ResourceEntry("a://b", print)})
        @tool
        def real(): ...
    """
    offer = load(write(tmp_path / "odd.py", text))
    assert map_names(offer) == (["real"], [], [], [])
    assert offer.problems == []


async def test_an_edit_replaces_resources_and_prompts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="mcp_bridge.sources.python")
    path = write(tmp_path / "notes.py", MARKED)
    offer = await get_offer_after_edit(path, MARKED.replace("notes://", "papers://").replace("def plan", "def draft"))
    assert map_names(offer) == ([], ["papers://today"], ["papers://{day}"], ["draft"])
    assert "reloaded: 0 tools, 2 resources and templates, 1 prompts" in caplog.text
