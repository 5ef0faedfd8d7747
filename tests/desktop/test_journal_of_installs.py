"""The record of installations survives other files in its folder and concurrent writers."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._desktop.journal import InstallationJournal, InstallationRecord
from tests.kits.paths import ROOT

RECORD = InstallationRecord(
    client="zed",
    scope="user",
    path="/home/me/settings.json",
    within=("context_servers",),
    name="tools",
    value={"command": "/usr/bin/mcp-bridge", "args": ["serve"]},
    settings="/home/me/mcp-bridge.yaml",
    change={"old": "", "before": 1, "after": 0, "digest": "00"},
    made_file=True,
    made_folders=("/home/me",),
    when="2026-11-22T09:00:00+00:00",
)
MANY = """
import sys
from pathlib import Path
from dataclasses import replace
from tests.desktop.test_journal_of_installs import RECORD
from mcp_bridge._desktop.journal import InstallationJournal
for number in range(50):
    InstallationJournal(Path(sys.argv[1])).store_record(replace(RECORD, name=f"{sys.argv[2]} {number}"))
    InstallationJournal(Path(sys.argv[1])).store_record(replace(RECORD, name="shared", settings=sys.argv[2]))
"""


def test_a_record_is_found_by_another_process(tmp_path: Path) -> None:
    InstallationJournal(tmp_path / "state").store_record(RECORD)
    journal = InstallationJournal(tmp_path / "state")
    assert journal.find_record("zed", "user", "/home/me/settings.json", ["context_servers"], "tools") == RECORD
    assert journal.find_record("zed", "user", Path("/home/me/settings.json"), ("context_servers",), "tools") == RECORD
    assert journal.find_record("zed", "project", "/home/me/settings.json", ["context_servers"], "tools") is None
    assert journal.list_records() == [RECORD]


def test_a_record_replaces_an_earlier_one_of_the_same_entry(tmp_path: Path) -> None:
    journal = InstallationJournal(tmp_path)
    journal.store_record(RECORD)
    journal.store_record(replace(RECORD, settings="/other.yaml"))
    assert [record.settings for record in journal.list_records()] == ["/other.yaml"]


def test_servers_with_equal_names_in_two_places_of_a_file_have_separate_records(tmp_path: Path) -> None:
    journal = InstallationJournal(tmp_path)
    elsewhere = replace(RECORD, within=("projects", "/home/me", "context_servers"))
    journal.store_record(RECORD)
    journal.store_record(elsewhere)
    assert journal.list_records() == [RECORD, elsewhere]
    assert journal.find_record("zed", "user", RECORD.path, elsewhere.within, "tools") == elsewhere
    journal.remove_record(elsewhere)
    assert journal.list_records() == [RECORD]


def test_a_record_is_forgotten_and_forgetting_again_is_nothing(tmp_path: Path) -> None:
    journal = InstallationJournal(tmp_path)
    journal.store_record(RECORD)
    journal.store_record(replace(RECORD, name="other"))
    journal.remove_record(RECORD)
    journal.remove_record(RECORD)
    assert [record.name for record in journal.list_records()] == ["other"]


def test_a_missing_folder_has_no_records(tmp_path: Path) -> None:
    journal = InstallationJournal(tmp_path / "none")
    assert journal.list_records() == []
    assert journal.find_record("zed", "user", "/x", [], "tools") is None
    journal.remove_record(RECORD)


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "[" * 100_000, '{"version": 1}', json.dumps({"version": 2, "client": "zed"}), "\xff"]
    + [
        json.dumps({"version": 1, **asdict(RECORD), **odd})
        for odd in ({"within": [1]}, {"change": []}, {"made_file": 1}, {"made_folders": [1]})
    ],
)
def test_other_files_in_the_journal_are_ignored(tmp_path: Path, text: str) -> None:
    journal = InstallationJournal(tmp_path)
    journal.store_record(RECORD)
    (tmp_path / "odd.json").write_bytes(text.encode("latin-1"))
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "note.txt").write_text("not ours")
    assert journal.list_records() == [RECORD]


def test_a_record_under_another_file_name_is_ignored(tmp_path: Path) -> None:
    journal = InstallationJournal(tmp_path)
    journal.store_record(RECORD)
    (mine,) = tmp_path.iterdir()
    journal.store_record(replace(RECORD, name="other"))
    (path,) = set(tmp_path.iterdir()) - {mine}
    path.write_bytes(mine.read_bytes())
    assert journal.find_record("zed", "user", RECORD.path, RECORD.within, "other") is None


def test_programs_that_write_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MANY, str(tmp_path)]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    writers = [subprocess.Popen([*command, name], env=environ) for name in ("one", "two")]
    assert [writer.wait(100) for writer in writers] == [0, 0]
    names = {record.name for record in InstallationJournal(tmp_path).list_records()}
    assert names == {"shared", *(f"{writer} {number}" for writer in ("one", "two") for number in range(50))}
    assert all(path.suffix == ".json" for path in tmp_path.iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="modes of POSIX")
def test_only_the_owner_can_read_records(tmp_path: Path) -> None:
    InstallationJournal(tmp_path / "state").store_record(RECORD)
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "state").iterdir()] == [0o600]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    journal = InstallationJournal(tmp_path / "state")
    with pytest.raises(ConfigError, match="cannot be written"):
        journal.store_record(RECORD)
    assert journal.list_records() == []


def test_a_record_that_is_not_json_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not JSON data"):
        InstallationJournal(tmp_path).store_record(replace(RECORD, change={"x": object()}))
    assert list(tmp_path.iterdir()) == []
