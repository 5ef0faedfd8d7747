"""`mcp-bridge module lock`: its reports, the lock file, and a locked module in a server."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import anyio
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, get_default_environment, stdio_client

from tests.kits.amplifier.git_repositories import Repository, build_module
from tests.kits.cli.cli_running import RunHere, run
from tests.kits.constants import TIMEOUT
from tests.kits.paths import ROOT

LOCK = "amplifier.lock.json"
SETTINGS = """
sources:
  - type: amplifier
    name: mine
    git: ["file://*"]
    modules: kept
    plan:
      tools:
        - {{module: one, source: "{uri}"}}
"""


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """Create a repository with one module."""
    (tmp_path / "far").mkdir()
    remote = Repository(tmp_path / "far")
    remote.commit({"one.py": build_module("one", "first")})
    return remote


@pytest.fixture
def settings(tmp_path: Path, repository: Repository) -> Path:
    """Write settings with the repository as a source, and allow it."""
    (tmp_path / "mine.yaml").write_text(SETTINGS.format(uri=f"{repository.uri}@main"))
    return tmp_path / "mine.yaml"


def test_the_report_has_locked_kept_and_updated_modules(
    run_here: RunHere, settings: Path, repository: Repository
) -> None:
    uri, first = f"{repository.uri}@main", repository.git("rev-parse", "HEAD")
    result = run_here("module", "lock", settings)
    assert result.code == 0
    assert result.err.splitlines() == [f"looking at {repository.url}", f"fetching {repository.url} {first[:12]}"]
    assert result.out.splitlines() == [f"locked   {first[:12]}  {uri}", f"{LOCK}: 1 module from git"]
    second = repository.commit({"one.py": build_module("one", "second")})
    assert f"kept     {first[:12]}  {uri}\n" in run_here("module", "lock", settings).out
    assert f"updated  {second[:12]}  {uri}\n" in run_here("module", "lock", settings, "--update").out
    settings.write_text(settings.read_text().replace("@main", ""))
    result = run_here("module", "lock", settings)
    assert f"locked   {second[:12]}  {repository.uri}\n" in result.out
    assert sorted(json.loads((settings.parent / LOCK).read_text())["modules"]) == sorted([uri, repository.uri])


def test_json_has_the_same_report(run_here: RunHere, settings: Path, repository: Repository) -> None:
    result = run_here("module", "lock", settings, "--json")
    assert (result.code, result.err) == (0, "")
    (row,) = result.json["modules"]
    assert result.json["lock"] == str(settings.parent / LOCK)
    assert result.json["errors"] == []
    assert (row["uri"], row["state"], row["was"]) == (f"{repository.uri}@main", "locked", None)
    assert row["commit"] == repository.git("rev-parse", "HEAD")
    assert (Path(row["folder"]) / "one.py").is_file()
    assert row["hash"] == json.loads((settings.parent / LOCK).read_text())["modules"][row["uri"]]["hash"]
    (row,) = run_here("module", "lock", settings, "--json").json["modules"]
    assert (row["state"], row["was"]) == ("kept", row["commit"])


def test_a_source_that_is_not_allowed_is_an_error_with_its_line(
    run_here: RunHere, settings: Path, repository: Repository
) -> None:
    settings.write_text(settings.read_text().replace("file://*", "https://host/*"))
    result = run_here("module", "lock", settings)
    assert result.code == 2
    assert f"mine.yaml:9: sources[0].plan.tools[0].source: {repository.uri}@main is not allowed" in result.err
    assert f"git: ['{repository.url}']" in result.err
    assert sorted(path.name for path in settings.parent.iterdir()) == ["far", "mine.yaml"]


def test_all_invalid_addresses_are_reported_without_passwords(run_here: RunHere, tmp_path: Path) -> None:
    rows = "[{module: a, source: 'git+ext::sh'}, {module: b, source: 'git+https://me:passw0rd@host/b'}, c]"
    (tmp_path / "s.yaml").write_text(f"sources:\n  - type: amplifier\n    plan:\n      tools: {rows}\n")
    result = run_here("module", "lock", "s.yaml")
    assert result.code == 2
    assert "sources[0].plan.tools[0].source" in result.err
    assert "sources[0].plan.tools[1].source: git+https://***@host/b has credentials in it" in result.err
    assert "passw0rd" not in result.err + result.out


def test_nothing_is_written_if_a_module_cannot_be_fetched(
    run_here: RunHere, settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.write_text(settings.read_text().replace("@main", "@gone"))
    result = run_here("module", "lock", settings)
    assert result.code == 1
    assert "has no branch or tag 'gone'" in result.err
    assert result.err.endswith("Nothing was locked. Fix these problems and retry.\n")
    assert not (settings.parent / LOCK).exists()
    result = run_here("module", "lock", settings, "--json")
    assert (result.code, result.json["modules"], len(result.json["errors"])) == (1, [], 1)
    monkeypatch.setenv("PATH", "")
    assert "need the git program, which is not on the PATH" in run_here("module", "lock", settings).err


def test_nothing_is_written_without_modules_from_git(run_here: RunHere, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("sources: [{type: python, path: gone.py}, {type: amplifier, plan: {tools: [a]}}]")
    result = run_here("module", "lock", "s.yaml")
    assert (result.code, result.out) == (0, f"{LOCK}: 0 modules from git\n")
    assert not (tmp_path / LOCK).exists()


def test_only_settings_can_be_locked(run_here: RunHere, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text("")
    result = run_here("module", "lock")
    assert (
        result.code,
        "tools.py: this is not a settings file. Pass a settings file or a mount plan" in result.err,
    ) == (2, True)
    result = run_here("module", "lock", "gone.yaml")
    assert (result.code, "no such file" in result.err) == (2, True)
    (tmp_path / "bad.yaml").write_text("sources: [{type: amplifier, git: 7, plan: {}}]")
    result = run_here("module", "lock", "bad.yaml")
    assert (result.code, "sources[0].git: expected a list" in result.err) == (2, True)


def test_a_broken_lock_file_is_an_error(run_here: RunHere, settings: Path) -> None:
    (settings.parent / LOCK).write_text("<<<<<<< mine")
    result = run_here("module", "lock", settings)
    assert result.code == 1
    assert f"{LOCK} is not a lock file" in result.err
    assert (settings.parent / LOCK).read_text() == "<<<<<<< mine"


def test_a_plan_that_is_the_whole_file_is_locked_too(
    run_here: RunHere, tmp_path: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    plan = f"tools:\n  - {{module: one, source: '{repository.uri}'}}\n"
    (tmp_path / "plan.yaml").write_text(plan)
    result = run_here("module", "lock", "plan.yaml")
    assert (result.code, "plan.yaml:2: tools[0].source: " in result.err) == (2, True)
    (tmp_path / "plan.yaml").write_text(f"git: ['{repository.url}']\n{plan}")
    assert run_here("module", "lock", "plan.yaml").code == 0
    result = run("call", "one", "--file", "plan.yaml", cwd=tmp_path)
    assert (result.code, result.out) == (0, "first\n")
    (tmp_path / "plan.yaml").write_text(f"git: [7]\n{plan}")
    result = run_here("module", "lock", "plan.yaml")
    assert (result.code, "plan.yaml:1: git[0]: expected text" in result.err) == (2, True)


async def test_a_locked_module_is_served_at_its_commit(settings: Path, repository: Repository, tmp_path: Path) -> None:
    repository.commit({"one.py": build_module("one", "good day")})
    result = run("validate", settings, cwd=tmp_path)
    assert (result.code, f"Run: mcp-bridge module lock {settings}" in result.out) == (1, True)
    result = run("module", "lock", settings, cwd=tmp_path)
    assert result.code == 0, result.err
    repository.commit({"one.py": "raise SystemExit('not what was locked')"})
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "mcp_bridge", "serve", str(settings)],
        env={**get_default_environment(), "PYTHONPATH": str(ROOT), "PATH": "/nowhere"},
        cwd=tmp_path,
    )
    with anyio.fail_after(TIMEOUT):
        async with Client(stdio_client(server)) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["one"]
            assert (await client.call_tool("one", {})).content[0].text == "good day"
