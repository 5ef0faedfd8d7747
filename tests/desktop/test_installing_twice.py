"""A second installation replaces the first only on request, and restores it when it is removed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from tests.kits.clients.clients_running import TOOLS, ClientHome, read_golden_file

EXAMPLES = ("cursor", "zed", "goose", "codex", "continue", "claude-code-local")


def move_to_project(user: ClientHome, name: str) -> ClientHome:
    """Return the same user in another project with only a tools.py."""
    project = user.project.with_name(name)
    project.mkdir()
    (project / "tools.py").write_text(TOOLS)
    return replace(user, project=project)


def read_targets(user: ClientHome) -> dict[str, str]:
    """Return the target of each server in Cursor's file."""
    servers = json.loads(user.path("cursor").read_text())["mcpServers"]
    return {name: server["args"][-1] for name, server in servers.items()}


def test_two_projects_with_a_tools_file_are_two_servers_named_after_their_folders(user: ClientHome) -> None:
    kitchen, garden = move_to_project(user, "kitchen"), move_to_project(user, "my garden")
    kitchen.run("install", "cursor", "tools.py")
    garden.run("install", "cursor")
    assert read_targets(user) == {
        "kitchen": str(kitchen.project / "tools.py"),
        "my-garden": str(garden.project / "tools.py"),
    }


@pytest.mark.parametrize("words", [["--name", "shelf"], ["shelf.yaml"]])
def test_a_bridge_that_serves_another_file_is_not_replaced(words: list[str], user: ClientHome) -> None:
    user.run("install", "cursor", user.settings)
    before = user.path("cursor").read_bytes()
    elsewhere = move_to_project(user, "elsewhere")
    (elsewhere.project / "shelf.yaml").write_text("name: shelf\nsources: [{type: python, path: tools.py}]\n")
    result = elsewhere.run("install", "cursor", *words, check=2)
    assert f"Cursor has a bridge named 'shelf' that serves {user.settings}" in result.stderr
    assert "--name" in result.stderr
    assert "--force" in result.stderr
    assert user.path("cursor").read_bytes() == before


def test_the_same_file_under_another_path_is_the_same_server(user: ClientHome) -> None:
    user.run("install", "cursor", user.settings)
    link = user.project.with_name("link")
    link.symlink_to(user.project)
    assert "updated" in user.run("install", "cursor", link / "shelf.yaml").stderr


@pytest.mark.parametrize("case", ["cursor", "zed", "goose", "codex", "continue"])
def test_uninstall_restores_the_entry_that_force_replaced(case: str, user: ClientHome) -> None:
    before = read_golden_file(case, "before", user)
    path = user.write_file(case, before)
    assert "replaced: 'files'" in user.run("install", case, user.settings, "--name", "files", "--force").stderr
    assert b"npx" not in path.read_bytes()
    assert "restored" in user.run("uninstall", case, "files").stderr
    assert path.read_bytes().decode() == before.decode()


@pytest.mark.parametrize("case", ["cursor", "zed", "goose", "codex", "continue"])
def test_a_replaced_bridge_is_restored_and_can_be_removed(case: str, user: ClientHome) -> None:
    before = read_golden_file(case, "before", user)
    path = user.write_file(case, before)
    elsewhere = move_to_project(user, "elsewhere")
    user.run("install", case, user.settings)
    first = path.read_bytes()
    elsewhere.run("install", case, "tools.py", "--name", "shelf", "--force")
    assert str(elsewhere.project).encode() in path.read_bytes()
    elsewhere.run("uninstall", case)
    assert path.read_bytes() == first
    user.run("uninstall", case)
    assert path.read_bytes() == before


def test_a_replaced_entry_is_restored_where_others_have_changed_the_file(user: ClientHome) -> None:
    old = {"command": "npx", "args": ["-y", "theirs"], "env": {"A": "b"}}
    path = user.write_file("cursor", json.dumps({"mcpServers": {"shelf": old}}).encode())
    user.run("install", "cursor", user.settings, "--force")
    data = json.loads(path.read_text())
    data["mcpServers"] |= {"new": {"command": "npx"}}
    data["mcpServers"]["shelf"] |= {"disabled": True}
    path.write_text(json.dumps(data, indent=3))
    user.run("uninstall", "cursor", "shelf")
    assert json.loads(path.read_text()) == {"mcpServers": {"shelf": old, "new": {"command": "npx"}}}


def test_replacing_again_and_again_keeps_the_journal_small(user: ClientHome) -> None:
    elsewhere = move_to_project(user, "elsewhere")
    user.run("install", "cursor", user.settings)
    for number in range(12):
        file = (elsewhere.project / "tools.py", user.settings)[number % 2]
        user.run("install", "cursor", file, "--name", "shelf", "--force")
    (record,) = (user.home / ".local").rglob("*.json")
    assert record.stat().st_size < 20_000
    assert "restored" in user.run("uninstall", "cursor").stderr


def test_uninstall_requires_a_name_or_all_if_there_are_several_servers(user: ClientHome) -> None:
    for name in ("one", "two", "three"):
        user.run("install", "cursor", user.settings, "--name", name)
    before = user.path("cursor").read_bytes()
    result = user.run("uninstall", "cursor", check=2)
    assert all(name in result.stderr for name in ("one", "two", "three", "--all", str(user.settings)))
    assert user.path("cursor").read_bytes() == before
    user.run("uninstall", "cursor", "two")
    assert [*read_targets(user)] == ["one", "three"]
    user.run("uninstall", "cursor", "--all")
    assert not user.path("cursor").exists()


def test_at_a_terminal_uninstall_asks_which(user: ClientHome) -> None:
    for name in ("one", "two", "three"):
        user.run("install", "cursor", user.settings, "--name", name)
    ours, theirs = pytest.importorskip("pty").openpty()
    os.write(ours, b"7\n2\n")
    result = subprocess.run(
        [sys.executable, "-m", "mcp_bridge", "uninstall", "cursor"],
        stdin=theirs,
        capture_output=True,
        text=True,
        cwd=user.project,
        env=user.environment,
        timeout=60,
        check=True,
    )
    os.close(ours)
    os.close(theirs)
    assert "2 = two serves" in result.stderr
    assert result.stderr.count("Type the number") == 2
    assert [*read_targets(user)] == ["one", "three"]
