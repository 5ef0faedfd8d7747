"""Exports pack the files of each type of source, and name files that they cannot pack."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_bridge._desktop.packaging.project import Additions, collect_project
from tests.kits.packaging.packaging_kit import run_in_process


def list_copied_files(folder: Path, settings: str) -> tuple[set[str], str]:
    """Return the files in an image of these settings, and the messages of the export."""
    (folder / "mcp-bridge.yaml").write_text(settings)
    result = run_in_process(folder, "export", "dockerfile", "--from-index")
    assert result.code == 0, result.err
    lines = [eval(line.removeprefix("COPY ")) for line in result.out.splitlines() if line.startswith("COPY [")]
    return {name for names in lines for name in names[:-1]} - {"mcp-bridge.yaml"}, result.err


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (
        "provider.py",
        "own/__init__.py",
        "own/things.py",
        "agent.yaml",
        "manual.json",
        "api.yaml",
        "_hidden.py",
        "a b[1].py",
        "skills/one/SKILL.md",
        "skills/one/parts/two.txt",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("source", "files"),
    [
        ("{type: python, path: ./provider.py}", {"provider.py"}),
        ("{type: python, path: .}", {"provider.py", "_hidden.py", "a b[[]1].py"}),
        ("{type: python, module: own.things}", {"own/__init__.py", "own/things.py"}),
        ("{type: xaibo, provider: 'provider.py:Provider'}", {"provider.py"}),
        ("{type: xaibo, provider: 'own.things:Provider'}", {"own/__init__.py", "own/things.py"}),
        (
            "{type: framework, objects: ['own.things:tool', 'provider:tools']}",
            {"own/__init__.py", "own/things.py", "provider.py"},
        ),
        ("{type: skills, path: skills}", {"skills/one/SKILL.md", "skills/one/parts/two.txt"}),
        ("{type: openapi, document: api.yaml}", {"api.yaml"}),
        ("{type: 'own.things:Options'}", {"own/__init__.py", "own/things.py"}),
    ],
)
def test_files_that_a_source_names_travel(folder: Path, source: str, files: set[str]) -> None:
    assert list_copied_files(folder, f"sources: [{source}]")[0] == files


@pytest.mark.parametrize(
    ("source", "files", "message"),
    [
        ("{type: xaibo, agent: agent.yaml}", {"agent.yaml"}, "the classes named in its agent are not detected"),
        ("{type: framework, utcp: [manual.json]}", {"manual.json"}, "what its manuals refer to is not detected"),
        (
            "{type: amplifier, plan: {}}",
            set(),
            "source 'amplifier': the files and packages that it needs",
        ),
        ("{type: python, name: mine, path: '${WHERE}'}", set(), "source 'mine': path depends on a variable"),
        ("{type: python, module: unlisted.at_all}", set(), "'unlisted' is imported but not required"),
        ("{type: python, module: yaml_unlisted}", set(), "add --needs yaml_unlisted"),
    ],
)
def test_references_that_cannot_be_followed_are_reported(
    folder: Path, source: str, files: set[str], message: str
) -> None:
    result, output = list_copied_files(folder, f"sources: [{source}]")
    assert result == files
    assert message in output


def test_the_credentials_of_a_source_are_variables_that_the_host_asks_for(folder: Path) -> None:
    sources = """
  - {type: openapi, document: api.yaml, auth: {key: 'env:SHOP', login: {username: me, password: 'env:WORD'}}}
  - {type: command, tools: {t: {command: ls}}, env: {TOKEN: 'env:SHOP'}}
  - {type: mcp, name: other, url: https://x.example/mcp, headers: {Authorization: Bearer env:OTHER}}"""
    (folder / "mcp-bridge.yaml").write_text(f"sources:{sources}")
    project = collect_project(folder / "mcp-bridge.yaml", Additions())
    assert [(item.name, item.is_secret) for item in project.variables] == [
        ("SHOP", True),
        ("WORD", True),
        ("OTHER", True),
    ]
    assert project.extras == ("openapi",)


def test_a_third_party_store_is_packed(folder: Path) -> None:
    assert list_copied_files(folder, "sources: []\nstate: {store: 'provider:Store'}")[0] == {"provider.py"}


def test_a_mount_plan_is_packed_with_a_warning_about_its_modules(folder: Path) -> None:
    _, output = list_copied_files(folder, "session: {orchestrator: loop-basic}\ntools: [{module: tool-x}]")
    assert "the files and packages that this kind of file needs are not detected: add" in output
