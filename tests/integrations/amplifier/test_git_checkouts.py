"""The checkouts of commits: the hash of their files, links out of them, and interrupted fetches."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from pathlib import Path

import pytest

from mcp_bridge._integrations.amplifier.source.checkouts import (
    Checkouts,
    check_links,
    hash_files,
    move_into_place,
    remove_compiled,
)
from mcp_bridge._integrations.amplifier.source.git import parse_address
from mcp_bridge.amplifier import ModuleLoadError
from tests.kits.amplifier.amplifier_modules import write_files

FILES = {"a.py": "a = 1\n", "b/c.py": "", "b/d.txt": "d"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with three files, a link, and an empty folder."""
    write_files(tmp_path / "files", FILES)
    (tmp_path / "files" / "link").symlink_to("b/c.py")
    (tmp_path / "files" / "empty").mkdir()
    return tmp_path / "files"


def test_the_hash_depends_only_on_names_and_contents(folder: Path, tmp_path: Path) -> None:
    second = write_files(tmp_path / "again", dict(reversed(FILES.items())))
    (second / "link").symlink_to("b/c.py")
    os.utime(second / "a.py", (1, 1))
    assert hash_files(second) == hash_files(folder)
    # The form of the hash must not change, because lock files have it.
    fixed = write_files(tmp_path / "fixed", {"a.py": "a = 1\n"})
    expected = hashlib.sha256(b"0 4 6\na.py\na = 1\n").hexdigest()
    assert hash_files(fixed) == f"sha256:{expected}"


@pytest.mark.parametrize(
    "change",
    [
        "echo x >> a.py",
        "mv a.py z.py",
        "mv b/d.txt d.txt",
        "rm b/d.txt",
        "touch more.py",
        "touch more.pyc",
        "ln -s a.py more",
        "rm link; ln -s a.py link",
        "rm link; cp b/c.py link",
        "rm a.py; ln -s b/c.py a.py",
        "ln -s b/c.py __pycache__",
        "touch __pycache__",
        "mkfifo pipe",
        "printf 'a = 1\\n0 0 0' > a.py",
    ],
)
def test_every_change_of_a_file_changes_the_hash(change: str, folder: Path) -> None:
    before = hash_files(folder)
    assert os.system(f"cd {folder} && {change}") == 0
    assert hash_files(folder) != before


def test_compiled_files_do_not_change_the_hash_and_are_removed(folder: Path) -> None:
    before = hash_files(folder)
    write_files(folder, {"__pycache__/a.cpython-311.pyc": "x", "b/__pycache__/deep/c.pyc": "x"})
    assert hash_files(folder) == before
    (folder / "empty" / "__pycache__").symlink_to("../b")
    remove_compiled(folder)
    assert not list(folder.rglob("__pycache__"))
    assert hash_files(folder) == before
    assert (folder / "b" / "c.py").exists()


def test_compiled_files_that_another_bridge_removes_are_no_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = shutil.rmtree

    def late(path: Path) -> None:
        real(path)
        real(path)

    write_files(folder, {"__pycache__/a.pyc": "x"})
    monkeypatch.setattr(shutil, "rmtree", late)
    remove_compiled(folder)
    monkeypatch.setattr(shutil, "rmtree", lambda path: os.unlink(path))
    write_files(folder, {"__pycache__/a.pyc": "x"})
    with pytest.raises(OSError, match="__pycache__"):
        remove_compiled(folder)


@pytest.mark.parametrize("target", ["a.py", "b", "b/../a.py", "gone", "./b/c.py"])
def test_a_link_within_the_repository_is_kept(target: str, folder: Path) -> None:
    (folder / "more").symlink_to(target)
    check_links(folder, "git+https://host/x")


@pytest.mark.parametrize(
    "target", ["/etc/passwd", "../outside", "b/../../outside", "..", "b/up/outside", "more", "{folder}/a.py"]
)
def test_a_link_out_of_the_repository_is_rejected(target: str, folder: Path) -> None:
    (folder / "b" / "up").symlink_to("..")
    (folder / "b" / "round").symlink_to("../link")
    if target == "b/up/outside":
        target = "b/up/../outside"
    (folder / "more").symlink_to(target.format(folder=folder))
    with pytest.raises(ModuleLoadError, match=r"git.https://host/x: 'more' is a link to .*, outside of the repository"):
        check_links(folder, "git+https://host/x")


def test_a_linked_folder_out_of_the_repository_is_rejected_and_not_read(folder: Path) -> None:
    (folder / "b" / "home").symlink_to("/")
    with pytest.raises(ModuleLoadError, match="'b/home' is a link to /"):
        check_links(folder, "git+https://host/x")
    hash_files(folder)


def test_commits_have_folders_by_repository(tmp_path: Path) -> None:
    checkouts = Checkouts(tmp_path)
    commit = "a" * 40
    uris = [
        "git+https://host/org/one",
        "git+https://host/org/two",
        "git+https://host/org-one",
        "git+ssh://host/org/one",
        f"git+https://host/{'x' * 300}/one",
        f"git+https://host/{'y' * 300}/one",
    ]
    places = [checkouts.locate(parse_address(uri), commit).parent for uri in uris]
    assert len(set(places)) == len(uris)
    assert checkouts.locate(parse_address(f"{uris[0]}@main#subdirectory=x"), commit).parent == places[0]
    for place in places:
        assert place.name == commit
        assert place.parent.parent == tmp_path
        assert len(place.parent.name) < 100
    assert "org-one" in places[0].parent.name


def test_a_complete_folder_replaces_an_older_one(tmp_path: Path) -> None:
    checkouts, place = Checkouts(tmp_path / "kept"), tmp_path / "kept" / "name" / "commit" / "files"
    for text in ("one", "two"):
        with checkouts.create_temporary_folder() as room:
            move_into_place(write_files(room / "files", {"a.py": text}), place, room)
        assert (place / "a.py").read_text() == text
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["name"]


def test_a_failed_fetch_leaves_no_files_and_an_interrupted_one_is_removed_later(tmp_path: Path) -> None:
    checkouts = Checkouts(tmp_path / "kept")
    with pytest.raises(ZeroDivisionError), checkouts.create_temporary_folder() as room:
        write_files(room, {"files/a.py": str(1 / 0)})
    assert list((tmp_path / "kept").iterdir()) == []
    old, new = (tmp_path / "kept" / f".partial-{name}" for name in ("old", "new"))
    for folder in (old, new):
        write_files(folder, {"files/a.py": ""})
    os.utime(old, (time.time() - 2 * 24 * 3600,) * 2)
    with checkouts.create_temporary_folder():
        assert not old.exists()
        assert new.exists()


def test_a_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    write_files(tmp_path, {"file": ""})
    with (
        pytest.raises(ModuleLoadError, match="file/kept: modules cannot be stored there: "),
        Checkouts(tmp_path / "file" / "kept").create_temporary_folder(),
    ):
        raise AssertionError("there is no room")


def test_by_default_checkouts_are_in_the_users_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert Checkouts().folder == tmp_path / "mcp-bridge" / "modules"
