"""Nothing remains in a repository or a client's folder: no backup and no empty folder."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tests.kits.clients.clients_running import FILES, ClientHome, read_golden_file, split_case


def list_user_files(user: ClientHome) -> list[Path]:
    return [path for path in user.files() if path.relative_to(user.home.parent).parts[0] in ("home", "project")]


@pytest.mark.parametrize("case", FILES)
def test_backups_are_in_the_users_state_folder_and_only_the_user_can_read_them(case: str, user: ClientHome) -> None:
    client, scope = split_case(case)
    before = read_golden_file(case, "before", user)
    path = user.write_file(case, before)
    paths = list_user_files(user)
    backup = Path(user.json("install", client, user.settings, "--scope", scope)["backup"])
    assert backup.is_relative_to(user.home / ".local" / "state")
    assert backup.read_bytes() == before
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    after = path.read_bytes()
    (removed,) = user.json("uninstall", client, "--scope", scope)["removed"]
    assert Path(removed["backup"]).read_bytes() == after
    assert list_user_files(user) == paths


@pytest.mark.parametrize("case", FILES)
def test_folders_that_were_created_for_a_file_are_removed_with_it(case: str, user: ClientHome) -> None:
    client, scope = split_case(case)
    paths = list_user_files(user)
    user.run("install", client, user.settings, "--scope", scope)
    assert user.path(case).exists()
    user.run("uninstall", client, "--scope", scope)
    assert list_user_files(user) == paths


@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")], ids="-".join)
def test_folders_are_removed_with_the_last_of_several_servers(order: tuple[str, ...], user: ClientHome) -> None:
    paths = list_user_files(user)
    for name in ("one", "two"):
        user.run("install", "cursor", user.settings, "--scope", "project", "--name", name)
    for name in order:
        user.run("uninstall", "cursor", name, "--scope", "project")
    assert list_user_files(user) == paths


def test_earlier_folders_and_used_folders_stay(user: ClientHome) -> None:
    (user.project / ".cursor").mkdir()
    user.run("install", "cursor", user.settings, "--scope", "project")
    user.run("uninstall", "cursor", "--scope", "project")
    assert (user.project / ".cursor").is_dir()
    user.run("install", "vscode", user.settings, "--scope", "project")
    (user.project / ".vscode" / "settings.json").write_text("{}")
    user.run("uninstall", "vscode", "--scope", "project")
    assert [*(user.project / ".vscode").iterdir()] == [user.project / ".vscode" / "settings.json"]


@pytest.mark.parametrize("scope", ["user", "project"])
def test_only_the_newest_backups_of_each_file_are_kept(scope: str, user: ClientHome) -> None:
    for name in ("one", "two", "three", "four", "five", "six"):
        user.run("install", "cursor", user.settings, "--scope", scope, "--name", name)
    assert len([*(user.home / ".local/state/mcp-bridge/backups").iterdir()]) == 3
