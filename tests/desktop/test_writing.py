"""A client's file is replaced as a whole, or not at all."""

from __future__ import annotations

import errno
import os
import stat
import sys
from pathlib import Path

import pytest

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._desktop import config_file
from mcp_bridge._desktop.config_file import load_file, save_file
from mcp_bridge._settings.documents.syntax import UnsafeEdit

posix = pytest.mark.skipif(sys.platform == "win32", reason="modes and links of POSIX")


def test_a_replaced_file_gets_a_backup_with_its_path_as_name(tmp_path: Path) -> None:
    path = _write_file(tmp_path, b'{"a": 1}\r\n')
    old = load_file(path)
    assert (old.content, old.existed) == ('{"a": 1}\r\n', True)
    backup = save_file(path, old, "{}\r\n", backup_folder=tmp_path / "backups")
    assert path.read_bytes() == b"{}\r\n"
    assert backup is not None
    assert backup.read_bytes() == b'{"a": 1}\r\n'
    assert backup.parent == tmp_path / "backups"
    assert backup.name.startswith(f"{_flatten(path)}.20")
    assert set(tmp_path.iterdir()) == {path, backup.parent}


def test_a_file_that_stays_as_it_is_is_not_touched(tmp_path: Path) -> None:
    path = _write_file(tmp_path, b"{}")
    before = path.stat()
    assert save_file(path, load_file(path), "{}", backup_folder=tmp_path / "backups") is None
    after = path.stat()
    # Reading changes the time of the last access.
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert list(tmp_path.iterdir()) == [path]


def test_a_byte_order_mark_stays(tmp_path: Path) -> None:
    path = _write_file(tmp_path, b"\xef\xbb\xbf{}")
    old = load_file(path)
    assert (old.content, old.bom) == ("{}", True)
    save_file(path, old, '{"é": 1}')
    assert path.read_bytes() == b"\xef\xbb\xbf" + '{"é": 1}'.encode()


def test_a_new_file_is_created_with_its_folders_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "servers.json"
    old = load_file(path)
    assert (old.content, old.existed) == ("", False)
    assert save_file(path, old, "{}", backup_folder=tmp_path / "backups") is None
    assert path.read_text() == "{}"
    assert [entry.name for entry in path.parent.iterdir()] == ["servers.json"]
    if sys.platform != "win32":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_is_removed_for_the_text_none(tmp_path: Path) -> None:
    path = _write_file(tmp_path, b"{}")
    backup = save_file(path, load_file(path), None, backup_folder=tmp_path / "backups")
    assert backup is not None
    assert list(tmp_path.iterdir()) == [backup.parent]
    assert save_file(path, load_file(path), None, backup_folder=tmp_path / "backups") is None


@posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_the_mode_stays_and_only_the_owner_can_read_backups(tmp_path: Path, mode: int) -> None:
    path = _write_file(tmp_path, b"{}")
    path.chmod(mode)
    backup = save_file(path, load_file(path), "{ }", backup_folder=tmp_path / "backups")
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert backup is not None
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600


@posix
def test_a_link_stays_a_link_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    target = _write_file(tmp_path / "dotfiles", b"{}")
    (tmp_path / "between.json").symlink_to(target)
    path = tmp_path / "servers.json"
    path.symlink_to("between.json")
    backup = save_file(path, load_file(path), "{ }", backup_folder=tmp_path / "backups")
    assert path.is_symlink()
    assert target.read_text() == "{ }"
    assert backup is not None
    assert backup.name.startswith(_flatten(target))
    save_file(path, load_file(path), None)
    assert path.is_symlink()
    assert target.read_text() == ""


@posix
@pytest.mark.parametrize(("leads_to", "problem"), [("nowhere.json", "does not exist"), ("servers.json", "circular")])
def test_a_link_that_leads_to_no_file_is_named(tmp_path: Path, leads_to: str, problem: str) -> None:
    path = tmp_path / "servers.json"
    path.symlink_to(leads_to)
    with pytest.raises(ConfigError, match=problem) as caught:
        load_file(path)
    assert caught.value.path == str(path)


@posix
def test_a_pipe_a_folder_and_a_device_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path(os.devnull)):
        with pytest.raises(ConfigError) as caught:
            load_file(path)
        assert caught.value.path == str(path)


@posix
def test_a_read_only_file_is_not_replaced(tmp_path: Path) -> None:
    path = _write_file(tmp_path, b"{}")
    path.chmod(0o444)
    with pytest.raises(ConfigError, match="read-only"):
        save_file(path, load_file(path), "{ }", backup_folder=tmp_path / "backups")
    _check_unchanged(path)


@posix
def test_a_file_with_hard_links_is_not_replaced(tmp_path: Path) -> None:
    path = _write_file(tmp_path, b"{}")
    (tmp_path / "other.json").hardlink_to(path)
    with pytest.raises(ConfigError, match="hard links"):
        save_file(path, load_file(path), "{ }", backup_folder=tmp_path / "backups")
    assert path.read_text() == "{}"


@posix
def test_a_file_in_a_read_only_folder_is_not_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _write_file(tmp_path, b"{}")
    old = load_file(path)

    def fail(*arguments: object, **options: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    # The user root could write in every folder.
    monkeypatch.setattr(config_file.tempfile, "mkstemp", fail)
    with pytest.raises(ConfigError, match="cannot be written: Permission denied"):
        save_file(path, old, "{ }", backup_folder=tmp_path / "backups")
    _check_unchanged(path)


@pytest.mark.parametrize("change", [b"{ }", b"", None])
def test_a_change_of_another_program_in_between_is_not_overwritten(tmp_path: Path, change: bytes | None) -> None:
    path = _write_file(tmp_path, b"{}")
    old = load_file(path)
    path.unlink()
    if change is not None:
        path.write_bytes(change)
    with pytest.raises(ConfigError):
        save_file(path, old, '{"a": 1}', backup_folder=tmp_path / "backups")
    assert (path.read_bytes() if path.exists() else None) == change
    assert [entry for entry in tmp_path.rglob("*") if entry.is_file() and entry != path] == []


def test_a_file_that_came_in_between_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "servers.json"
    old = load_file(path)
    path.write_bytes(b"theirs")
    with pytest.raises(ConfigError, match="another program"):
        save_file(path, old, "{}", backup_folder=tmp_path / "backups")
    assert path.read_bytes() == b"theirs"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    path = _write_file(tmp_path, b"{}")
    old = load_file(path)

    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path if call == "replace" else config_file.os, call, full)
    with pytest.raises(ConfigError, match="No space left"):
        save_file(path, old, "{ }", backup_folder=tmp_path / "backups")
    monkeypatch.undo()
    _check_unchanged(path)


def test_three_backups_are_kept(tmp_path: Path) -> None:
    path = _write_file(tmp_path, b"0")
    other = _write_file(tmp_path / "other", b"theirs")
    folder = tmp_path / "backups"
    other_backup = save_file(other, load_file(other), "", backup_folder=folder)
    backups = [save_file(path, load_file(path), str(number), backup_folder=folder) for number in range(1, 7)]
    assert set(folder.iterdir()) == {*backups[-3:], other_backup}
    assert [copy.read_text() for copy in backups[-3:] if copy is not None] == ["3", "4", "5"]


def test_the_backup_of_a_file_with_a_long_path_has_a_hash_in_its_name(tmp_path: Path) -> None:
    folders = [tmp_path.joinpath(*["x" * 60] * 4, last) for last in ("one", "two")]
    backups = []
    for folder in folders:
        path = _write_file(folder, b"{}")
        backups.append(save_file(path, load_file(path), "", backup_folder=tmp_path / "backups"))
    names = [backup.name.partition("%") for backup in backups if backup is not None]
    assert len({digest for digest, _, _ in names}) == 2
    assert all(name.startswith("servers.json.20") for _, _, name in names)


@pytest.mark.parametrize(
    ("raw", "problem", "line"),
    [(b"{}\n\xff", "UTF-8", 2), ('{"a": 1}'.encode("utf-16"), "UTF-16", None)],
)
def test_a_file_that_is_not_utf_8_is_unsafe(tmp_path: Path, raw: bytes, problem: str, line: int | None) -> None:
    path = _write_file(tmp_path, raw)
    with pytest.raises(UnsafeEdit, match=problem) as caught:
        load_file(path)
    assert (caught.value.path, caught.value.line) == (str(path), line)


def test_a_file_below_a_file_cannot_be(tmp_path: Path) -> None:
    path = _write_file(tmp_path, b"{}") / "servers.json"
    with pytest.raises(ConfigError) as caught:
        save_file(path, load_file(path), "{}", backup_folder=tmp_path / "backups")
    assert caught.value.path == str(path)


@pytest.mark.parametrize("raw", [b"\xef\xbb\xbf{}\r\n", None])
def test_a_file_is_put_back_as_it_was_read(tmp_path: Path, raw: bytes | None) -> None:
    path = tmp_path / "servers.json"
    if raw is not None:
        path.write_bytes(raw)
    old = load_file(path)
    path.write_bytes(b"something else")
    config_file.restore_file(old)
    assert (path.read_bytes() if path.exists() else None) == raw
    config_file.restore_file(old)


def test_a_copy_is_made_before_a_command_changes_the_file(tmp_path: Path) -> None:
    path = _write_file(tmp_path, b"{}")
    copy = config_file.write_backup(load_file(path), tmp_path / "backups")
    assert copy is not None
    assert copy.read_bytes() == b"{}"
    assert config_file.write_backup(load_file(tmp_path / "none.json"), tmp_path / "backups") is None


def _flatten(path: Path) -> str:
    return str(path.resolve()).strip("/").replace("/", "%")


def _write_file(folder: Path, raw: bytes) -> Path:
    path = folder / "servers.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw)
    return path


def _check_unchanged(path: Path) -> None:
    assert path.read_bytes() == b"{}"
    assert [entry for entry in path.parent.rglob("*") if entry.is_file()] == [path]
