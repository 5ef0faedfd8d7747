"""`mcp-bridge module lock`: what it says and writes, and the whole way from settings to a client."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import anyio
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, get_default_environment, stdio_client

from tests.kits.amplifier.git_repositories import Repository, build_module
from tests.kits.cli.cli_running import Inside, run
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
    """A repository with one module, in a folder of its own."""
    (tmp_path / "far").mkdir()
    made = Repository(tmp_path / "far")
    made.commit({"one.py": build_module("one", "first")})
    return made


@pytest.fixture
def settings(tmp_path: Path, repository: Repository) -> Path:
    """Settings that name and allow it."""
    (tmp_path / "mine.yaml").write_text(SETTINGS.format(uri=f"{repository.uri}@main"))
    return tmp_path / "mine.yaml"


def test_the_report_has_what_was_locked_kept_and_updated(
    inside: Inside, settings: Path, repository: Repository
) -> None:
    uri, first = f"{repository.uri}@main", repository.git("rev-parse", "HEAD")
    done = inside("module", "lock", settings)
    assert done.code == 0
    assert done.err.splitlines() == [f"looking at {repository.url}", f"fetching {repository.url} {first[:12]}"]
    assert done.out.splitlines() == [f"locked   {first[:12]}  {uri}", f"{LOCK}: 1 module from git"]
    second = repository.commit({"one.py": build_module("one", "second")})
    assert f"kept     {first[:12]}  {uri}\n" in inside("module", "lock", settings).out
    assert f"updated  {second[:12]}  {uri}\n" in inside("module", "lock", settings, "--update").out
    settings.write_text(settings.read_text().replace("@main", ""))
    done = inside("module", "lock", settings)
    assert f"locked   {second[:12]}  {repository.uri}\n" in done.out
    assert sorted(json.loads((settings.parent / LOCK).read_text())["modules"]) == sorted([uri, repository.uri])


def test_as_json_it_says_the_same(inside: Inside, settings: Path, repository: Repository) -> None:
    done = inside("module", "lock", settings, "--json")
    assert (done.code, done.err) == (0, "")
    (row,) = done.json["modules"]
    assert done.json["lock"] == str(settings.parent / LOCK)
    assert done.json["errors"] == []
    assert (row["uri"], row["state"], row["was"]) == (f"{repository.uri}@main", "locked", None)
    assert row["commit"] == repository.git("rev-parse", "HEAD")
    assert (Path(row["folder"]) / "one.py").is_file()
    assert row["hash"] == json.loads((settings.parent / LOCK).read_text())["modules"][row["uri"]]["hash"]
    (row,) = inside("module", "lock", settings, "--json").json["modules"]
    assert (row["state"], row["was"]) == ("kept", row["commit"])


def test_what_is_not_allowed_is_told_with_its_line_and_nothing_is_fetched(
    inside: Inside, settings: Path, repository: Repository
) -> None:
    settings.write_text(settings.read_text().replace("file://*", "https://host/*"))
    done = inside("module", "lock", settings)
    assert done.code == 2
    assert f"mine.yaml:9: sources[0].plan.tools[0].source: {repository.uri}@main is not allowed" in done.err
    assert f"git: ['{repository.url}']" in done.err
    assert sorted(path.name for path in settings.parent.iterdir()) == ["far", "mine.yaml"]


def test_every_address_that_cannot_be_is_told_at_once_and_no_password(inside: Inside, tmp_path: Path) -> None:
    rows = "[{module: a, source: 'git+ext::sh'}, {module: b, source: 'git+https://me:passw0rd@host/b'}, c]"
    (tmp_path / "s.yaml").write_text(f"sources:\n  - type: amplifier\n    plan:\n      tools: {rows}\n")
    done = inside("module", "lock", "s.yaml")
    assert done.code == 2
    assert "sources[0].plan.tools[0].source" in done.err
    assert "sources[0].plan.tools[1].source: git+https://***@host/b has credentials in it" in done.err
    assert "passw0rd" not in done.err + done.out


def test_what_cannot_be_fetched_is_told_and_nothing_is_written(
    inside: Inside, settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.write_text(settings.read_text().replace("@main", "@gone"))
    done = inside("module", "lock", settings)
    assert done.code == 1
    assert "has no branch or tag 'gone'" in done.err
    assert done.err.endswith("Nothing was locked. Fix these problems and retry.\n")
    assert not (settings.parent / LOCK).exists()
    done = inside("module", "lock", settings, "--json")
    assert (done.code, done.json["modules"], len(done.json["errors"])) == (1, [], 1)
    monkeypatch.setenv("PATH", "")
    assert "need the git program, which is not on the PATH" in inside("module", "lock", settings).err


def test_without_modules_from_git_there_is_nothing_to_write(inside: Inside, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("sources: [{type: python, path: gone.py}, {type: amplifier, plan: {tools: [a]}}]")
    done = inside("module", "lock", "s.yaml")
    assert (done.code, done.out) == (0, f"{LOCK}: 0 modules from git\n")
    assert not (tmp_path / LOCK).exists()


def test_only_settings_can_be_locked(inside: Inside, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text("")
    done = inside("module", "lock")
    assert (done.code, "tools.py: this is not a settings file, so it lists no modules" in done.err) == (2, True)
    done = inside("module", "lock", "gone.yaml")
    assert (done.code, "no such file" in done.err) == (2, True)
    (tmp_path / "bad.yaml").write_text("sources: [{type: amplifier, git: 7, plan: {}}]")
    done = inside("module", "lock", "bad.yaml")
    assert (done.code, "sources[0].git: expected a list" in done.err) == (2, True)


def test_a_lock_file_that_is_broken_is_told(inside: Inside, settings: Path) -> None:
    (settings.parent / LOCK).write_text("<<<<<<< mine")
    done = inside("module", "lock", settings)
    assert done.code == 1
    assert f"{LOCK} is not a lock file" in done.err
    assert (settings.parent / LOCK).read_text() == "<<<<<<< mine"


def test_a_plan_that_is_the_whole_file_is_locked_too(
    inside: Inside, tmp_path: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    plan = f"tools:\n  - {{module: one, source: '{repository.uri}'}}\n"
    (tmp_path / "plan.yaml").write_text(plan)
    done = inside("module", "lock", "plan.yaml")
    assert (done.code, "plan.yaml:2: tools[0].source: " in done.err) == (2, True)
    (tmp_path / "plan.yaml").write_text(f"git: ['{repository.url}']\n{plan}")
    assert inside("module", "lock", "plan.yaml").code == 0
    done = run("call", "one", "--file", "plan.yaml", cwd=tmp_path)
    assert (done.code, done.out) == (0, "first\n")
    (tmp_path / "plan.yaml").write_text(f"git: [7]\n{plan}")
    done = inside("module", "lock", "plan.yaml")
    assert (done.code, "plan.yaml:1: git[0]: expected text" in done.err) == (2, True)


async def test_the_whole_way_from_settings_to_a_client(settings: Path, repository: Repository, tmp_path: Path) -> None:
    repository.commit({"one.py": build_module("one", "good day")})
    done = run("validate", settings, cwd=tmp_path)
    assert (done.code, f"Run: mcp-bridge module lock {settings}" in done.out) == (1, True)
    done = run("module", "lock", settings, cwd=tmp_path)
    assert done.code == 0, done.err
    repository.commit({"one.py": "raise SystemExit('not what was locked')"})
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "mcp_bridge", "serve", str(settings)],
        env={**get_default_environment(), "PYTHONPATH": str(ROOT), "PATH": "/nowhere"},
        cwd=tmp_path,
    )
    with anyio.fail_after(100):
        async with Client(stdio_client(server)) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["one"]
            assert (await client.call_tool("one", {})).content[0].text == "good day"
