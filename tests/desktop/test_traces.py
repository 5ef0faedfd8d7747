"""Nothing stays in a repository or a home folder: no backup in a project, no empty folder that we made."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kits.clients.clients_running import FILES, Person, client_of, golden, person

PROJECT = [case for case in FILES if client_of(case)[1] == "project"]


@pytest.fixture
def who(tmp_path: Path) -> Person:
    return person(tmp_path)


def all_paths(who: Person) -> list[Path]:
    return [path for path in who.files() if path.relative_to(who.home.parent).parts[0] in ("home", "project")]


@pytest.mark.parametrize("case", PROJECT)
def test_the_backup_of_a_projects_file_is_in_the_users_state_folder(case: str, who: Person) -> None:
    client, scope = client_of(case)
    before = golden(case, "before", who)
    path = who.place(case, before)
    paths = all_paths(who)
    backup = Path(who.json("install", client, who.settings, "--scope", scope)["backup"])
    assert backup.is_relative_to(who.home / ".local" / "state")
    assert backup.read_bytes() == before
    assert backup.stat().st_mode & 0o077 == 0
    after = path.read_bytes()
    (removed,) = who.json("uninstall", client, "--scope", scope)["removed"]
    assert Path(removed["backup"]).read_bytes() == after
    assert all_paths(who) == paths


@pytest.mark.parametrize("case", FILES)
def test_folders_that_were_created_for_a_file_are_removed_with_it(case: str, who: Person) -> None:
    client, scope = client_of(case)
    paths = all_paths(who)
    who.run("install", client, who.settings, "--scope", scope)
    assert who.path(case).exists()
    who.run("uninstall", client, "--scope", scope)
    assert all_paths(who) == paths


@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")], ids="-".join)
def test_folders_are_removed_with_the_last_of_several_servers(order: tuple[str, ...], who: Person) -> None:
    paths = all_paths(who)
    for name in ("one", "two"):
        who.run("install", "cursor", who.settings, "--scope", "project", "--name", name)
    for name in order:
        who.run("uninstall", "cursor", name, "--scope", "project")
    assert all_paths(who) == paths


def test_earlier_folders_and_used_folders_stay(who: Person) -> None:
    (who.project / ".cursor").mkdir()
    who.run("install", "cursor", who.settings, "--scope", "project")
    who.run("uninstall", "cursor", "--scope", "project")
    assert (who.project / ".cursor").is_dir()
    who.run("install", "vscode", who.settings, "--scope", "project")
    (who.project / ".vscode" / "settings.json").write_text("{}")
    who.run("uninstall", "vscode", "--scope", "project")
    assert [*(who.project / ".vscode").iterdir()] == [who.project / ".vscode" / "settings.json"]


def test_only_the_newest_backups_of_each_project_are_kept(who: Person) -> None:
    for name in ("one", "two", "three", "four", "five", "six"):
        who.run("install", "cursor", who.settings, "--scope", "project", "--name", name)
    backups = [path for path in (who.home / ".local").rglob("*backup*") if path.is_file()]
    assert len(backups) == 3
