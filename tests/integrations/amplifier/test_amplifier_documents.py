"""Every example in the three documents about Amplifier's modules runs with the documented result."""

from __future__ import annotations

import re
import sys
import tempfile
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from mcp_bridge.amplifier import ModuleLoader
from mcp_bridge.amplifier.testing import TestCoordinator
from tests.kits.amplifier import (
    documents_contexts,
    documents_hooks,
    documents_loops,
    documents_sources,
    documents_tools,
)
from tests.kits.amplifier.amplifier_modules import install_distribution
from tests.kits.amplifier.documents_pieces import DOCUMENTS, MODULES, SUMMARY, TOOL
from tests.kits.amplifier.documents_reading import FOLDER, Example, read_examples

CHECKS = {
    **documents_tools.TOOL_CHECKS,
    **documents_hooks.HOOK_CHECKS,
    **documents_loops.LOOP_CHECKS,
    **documents_contexts.CONTEXT_CHECKS,
    **documents_sources.SOURCE_CHECKS,
}
"""The function that runs and checks an example, by its title."""


def find_examples_in(language: str) -> list[Example]:
    """Return the examples in one language."""
    return [example for document in DOCUMENTS for example in read_examples(document) if example.language == language]


def make_id(example: Example) -> str:
    """Return the id of the test of an example."""
    return f"{example.document.partition('.')[0]}-{example.number}"


def test_all_examples_of_the_document_are_tested() -> None:
    languages = {document: Counter(example.language for example in read_examples(document)) for document in DOCUMENTS}
    assert languages == {
        TOOL: {"python": 10, "toml": 1, "yaml": 1, "bash": 1},
        MODULES: {"python": 55, "toml": 5, "yaml": 5, "bash": 6},
        SUMMARY: {"python": 3},
    }


def test_all_other_text_is_prose() -> None:
    text = (FOLDER / MODULES).read_text("utf-8")
    for example in read_examples(MODULES):
        text = text.replace(example.text.strip("\n"), "", 1)
    code = re.compile(
        r"^(    .*[=:({]$|(async )?def |class |@|await |return |assert |from \w+ import|\w+ = )", re.MULTILINE
    )
    assert [line for line in text.splitlines() if code.match(line)] == []


def test_every_test_has_an_example() -> None:
    assert set(CHECKS) == {example.title for example in find_examples_in("python")}


@pytest.mark.parametrize("example", find_examples_in("python"), ids=make_id)
async def test_an_example_runs(example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    monkeypatch.delenv("MY_API_KEY", raising=False)
    await CHECKS[example.title](example)


@pytest.mark.parametrize("example", find_examples_in("toml"), ids=make_id)
async def test_an_entry_point_is_found(example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = tomllib.loads(example.text)["project"]["entry-points"]["amplifier.modules"]
    [(module, target)] = points.items()
    file = f"{target.partition(':')[0]}.py"
    install_distribution(
        tmp_path, monkeypatch, points, {file: "async def mount(coordinator, config):\n    return config\n"}
    )
    assert await ModuleLoader(TestCoordinator()).load(module, {"max_size": 1}) == {"max_size": 1}


@pytest.mark.parametrize("example", find_examples_in("yaml"), ids=make_id)
def test_a_mount_plan_is_yaml(example: Example) -> None:
    [(section, modules)] = YAML(typ="safe").load(example.text).items()
    if section == "session":
        assert all(isinstance(module, str) for module in modules.values())
    else:
        assert [set(module) for module in modules] == [{"module", "source", "config"}]


@pytest.mark.parametrize("example", find_examples_in("bash"), ids=make_id)
def test_a_command_validates_a_module(example: Example) -> None:
    kinds = "tool|provider|hook|orchestrator|context"
    assert re.search(rf"^amplifier module validate \./my-\w+( --type ({kinds}))?$", example.text, re.MULTILINE)
