"""Every snippet of the README and the docs runs unchanged."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.kits.constants import TIMEOUT
from tests.kits.forked_commands import get_forked_command
from tests.kits.paths import ROOT
from tests.kits.sandbox.sandbox_kit import MISSING_BUBBLEWRAP, MISSING_LANDLOCK

README = ROOT / "README.md"
HOME = ROOT / "docs" / "index.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
FENCE = re.compile(r"^```(?P<kind>\w*)(?: file=(?P<file>\S+))?\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
SHELL = {"pip", "uv", "mcp-bridge", "claude", "gemini", "make"}
RUNNABLE = {"python", "yaml", "console"}
STATED_PACKAGES = {
    "fastmcp-servers.md": "`pip install mcp`",
    "frameworks.md": "`pip install langchain-core`",
    "scale.md": "`pip install 'mcp-tool-bridge[tasks]'`",
}
"""Pages whose first example needs more than a plain installation, with the text that says so before the example."""
FINDER = """
import sys
from importlib.machinery import PathFinder


class PlainFinder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {names} else super().find_spec(name, path, target)


sys.meta_path[sys.meta_path.index(PathFinder)] = PlainFinder
"""
"""A `sitecustomize` that hides modules from an interpreter."""


@dataclass(frozen=True)
class Snippet:
    page: str
    number: int
    kind: str
    body: str

    def __str__(self) -> str:
        return f"{self.page}-{self.number}-{self.kind}"


def list_snippets(*kinds: str) -> list[Snippet]:
    return [
        Snippet(page.name, number, match["kind"], match["body"])
        for page in [*PAGES, CONTRIBUTING]
        for number, match in enumerate(FENCE.finditer(page.read_text(encoding="utf-8")), 1)
        if match["kind"] in kinds and (page, match["kind"]) != (CONTRIBUTING, "sh")
    ]


def list_example_commands() -> list[str]:
    """Return the commands in the tables of the page of examples that end without input."""
    text = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    return re.findall(r"`(mcp-bridge (?:call|explain|list|read|trust|validate) [^`]*config/[^`]+)`", text)


def read_tool_file(page: Path) -> str:
    match = re.search(r"^```python file=tools.py\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)
    assert match is not None
    return match[1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the files on all pages, and the examples in config/.

    The server of its `tools.py` has the name of the folder.
    """
    folder = tmp_path / "shelf"
    shutil.copytree(ROOT / "config", folder / "config", ignore=shutil.ignore_patterns("__pycache__"))
    for page in [*PAGES, CONTRIBUTING]:
        for match in FENCE.finditer(page.read_text(encoding="utf-8")):
            if match["file"]:
                file = folder / match["file"]
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(match["body"], encoding="utf-8")
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return a PATH on which `mcp-bridge` is the one of this checkout."""
    script = tmp_path / "bin" / "mcp-bridge"
    script.parent.mkdir()
    # A bridge that starts another one ends it by its process group, to which a fork would not belong.
    alone = f'[ "$1" = serve ] && exec {sys.executable} -m mcp_bridge "$@"'
    script.write_text(
        f'#!/bin/sh\n{alone}\nexec {shlex.join(get_forked_command())} mcp_bridge "$@"\n', encoding="utf-8"
    )
    script.chmod(0o755)
    return {**os.environ, "PATH": f"{script.parent}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "200"}


def test_the_readmes_tool_file_has_about_ten_lines() -> None:
    assert len([line for line in read_tool_file(README).splitlines() if line.strip()]) <= 11


def test_the_home_of_the_site_shows_the_tool_of_the_readme() -> None:
    assert read_tool_file(HOME) == read_tool_file(README)


def test_the_home_of_the_site_lists_every_page() -> None:
    text = HOME.read_text(encoding="utf-8")
    assert [page.name for page in PAGES if page not in (README, HOME) and f"]({page.name})" not in text] == []


@pytest.mark.parametrize("snippet", list_snippets("python"), ids=str)
def test_python_runs(snippet: Snippet, folder: Path) -> None:
    source = folder / "snippet.py"
    source.write_text(snippet.body, encoding="utf-8")
    process = subprocess.run(
        [*get_forked_command(), str(source)], cwd=folder, capture_output=True, text=True, timeout=TIMEOUT
    )
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize("snippet", list_snippets("console"), ids=str)
def test_commands_print_the_output_on_the_page(snippet: Snippet, folder: Path, environment: dict[str, str]) -> None:
    for command, expected in split_session(snippet.body):
        process = subprocess.run(
            ["sh", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT
        )
        printed = process.stdout + process.stderr
        # A failed call is an example, too, if the page shows its error.
        assert process.returncode == 0 or (command.startswith("mcp-bridge call ") and expected), printed
        for line in expected:
            assert line in printed.splitlines()


@pytest.mark.parametrize("command", list_example_commands())
def test_a_command_in_the_tables_of_examples_succeeds(command: str, folder: Path, environment: dict[str, str]) -> None:
    process = subprocess.run(
        ["sh", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT
    )
    assert process.returncode == 0, process.stdout + process.stderr


def split_session(body: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the commands (`$ ...`) with the lines printed after each."""
    for session in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        command, *printed = session.splitlines()
        yield command, [line for line in printed if line.strip()]


@pytest.mark.parametrize("snippet", list_snippets("yaml"), ids=str)
def test_settings_are_valid(snippet: Snippet, folder: Path, environment: dict[str, str]) -> None:
    (folder / "settings.yaml").write_text(snippet.body, encoding="utf-8")
    (folder / "data").mkdir(exist_ok=True)
    command = ["mcp-bridge", "validate", "settings.yaml"]
    process = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT)
    printed = process.stdout + process.stderr
    if "sandbox:" in snippet.body and MISSING_BUBBLEWRAP and MISSING_LANDLOCK:
        pytest.skip(f"NOT TESTED, there is no sandbox here: {printed}")
    if "container:" in snippet.body and "docker" in printed:
        pytest.skip(f"NOT TESTED, there is no container engine here: {printed}")
    assert process.returncode == 0, printed


@pytest.fixture
def plain_environment(folder: Path) -> dict[str, str]:
    """Return an environment in which programs find no modules of extras. `mcp-bridge` is the installed command."""
    finder = FINDER.format(names=sorted(list_modules_of_extras()))
    # Examples that set PYTHONPATH to the current folder replace the one of this environment.
    for directory in (folder, folder / "site"):
        directory.mkdir(exist_ok=True)
        (directory / "sitecustomize.py").write_text(finder, encoding="utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(folder / "site"), "COLUMNS": "200"}


def list_modules_of_extras() -> set[str]:
    """Return the top-level modules of this environment that a plain installation does not have."""
    plain: set[str] = set()
    pending = ["mcp-tool-bridge"]
    while pending:
        name = canonicalize_name(pending.pop())
        if name in plain:
            continue
        plain.add(name)
        for requirement in map(Requirement, metadata.requires(name) or []):
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                pending.append(requirement.name)
    modules = metadata.packages_distributions()
    return {module for module, owners in modules.items() if plain.isdisjoint(map(canonicalize_name, owners))}


def find_first_example(page: Path) -> tuple[str, list[tuple[str, str]]]:
    """Return the text before the first example of a page, and the kinds and bodies of its snippets.

    It begins with the first snippet that can run, and ends with its section. If there are commands in it, the example
    is the first of them, because they use the files of the other snippets.
    """
    text = page.read_text(encoding="utf-8")
    snippets: list[tuple[str, str]] = []
    start = end = 0
    for match in FENCE.finditer(text):
        if match["kind"] not in RUNNABLE:
            continue
        if not snippets:
            start = match.start()
        elif "\n#" in FENCE.sub("", text[end : match.start()]):
            break
        if match["kind"] == "console":
            return text[:start], [(match["kind"], match["body"])]
        snippets.append((match["kind"], match["body"]))
        end = match.end()
    return text[:start], snippets


def list_sessions(kind: str, file: Path) -> list[tuple[str, list[str]]]:
    """Return the commands that run a snippet in a file, with the lines printed after each."""
    if kind == "console":
        return list(split_session(file.read_text(encoding="utf-8")))
    if kind == "yaml":
        return [(f"mcp-bridge validate {file.name}", [])]
    return [(f"python {file.name}", [])]


def list_pages_for_plain_installations() -> list[Path]:
    pages = [page for page in [*PAGES, CONTRIBUTING] if page.name not in STATED_PACKAGES]
    return [page for page in pages if find_first_example(page)[1]]


@pytest.mark.parametrize("page", list_pages_for_plain_installations(), ids=lambda page: page.name)
def test_the_first_example_runs_in_a_plain_installation(
    page: Path, folder: Path, plain_environment: dict[str, str]
) -> None:
    _, snippets = find_first_example(page)
    for kind, body in snippets:
        file = folder / f"first_example.{kind}"
        file.write_text(body, encoding="utf-8")
        for command, expected in list_sessions(kind, file):
            process = subprocess.run(
                ["sh", "-c", command],
                cwd=folder,
                env=plain_environment,
                capture_output=True,
                text=True,
                timeout=TIMEOUT,
            )
            printed = process.stdout + process.stderr
            assert process.returncode == 0 or expected, printed
            assert [line for line in expected if line not in printed.splitlines()] == [], printed


@pytest.mark.parametrize("name", STATED_PACKAGES)
def test_a_page_states_the_packages_of_its_first_example(name: str) -> None:
    introduction, _ = find_first_example(ROOT / "docs" / name)
    assert STATED_PACKAGES[name] in " ".join(introduction.split())


def test_client_settings_start_the_bridge() -> None:
    for snippet in list_snippets("json", "toml"):
        (servers,) = (json.loads if snippet.kind == "json" else tomllib.loads)(snippet.body).values()
        assert servers["shelf"]["args"] == ["serve", "/path/to/tools.py"], snippet


def test_shell_lines_are_commands_the_reader_has() -> None:
    lines = [line for snippet in list_snippets("sh") for line in snippet.body.splitlines()]
    assert lines
    assert [line for line in lines if line.split()[0] not in SHELL] == []


def test_every_snippet_is_of_a_kind_that_is_tested() -> None:
    kinds = {match["kind"] for page in PAGES for match in FENCE.finditer(page.read_text(encoding="utf-8"))}
    assert kinds <= {"python", "console", "yaml", "json", "toml", "sh", "text"}


def test_git_ignores_nothing_that_the_docs_need() -> None:
    git = shutil.which("git")
    assert git is not None
    process = subprocess.run(
        [git, "status", "--short", "--ignored", "docs", "config"], cwd=ROOT, capture_output=True, text=True
    )
    assert not [line for line in process.stdout.splitlines() if line.startswith("!!") and "__pycache__" not in line]
