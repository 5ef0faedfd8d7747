"""The chain: append-only, verified, shared by processes, and still verifiable after old records are removed."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import anyio
import pytest

from mcp_bridge._policies.audit_trail import retention as retention_module
from mcp_bridge._policies.audit_trail.chain import ChainReport
from mcp_bridge._policies.audit_trail.reader import AuditQuery, open_trail, read_page
from mcp_bridge._policies.audit_trail.retention import Retention, format_time
from mcp_bridge._policies.audit_trail.writer import AuditWriter
from tests.kits.audit.audit_kit import read_records, run_server, wait_for_record, write_settings
from tests.kits.loops import BOTH_LOOPS

DAY = 86400.0


async def write(path: Path, count: int, *, age: float = 0.0, limits: Retention | None = None, name: str = "x") -> None:
    """Append records, one after the other."""
    writer = AuditWriter(path, retention=limits)
    for number in range(count):
        record = {"time": format_time(time.time() - age), "kind": "tool", "name": f"{name}{number}", "outcome": "ok"}
        await writer.append_record(record)


def verify(path: Path, expected: str = "") -> ChainReport:
    with open_trail(path) as trail:
        return trail.verify(expected)


@contextmanager
def open_without_triggers(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a connection without the triggers of the file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        names = database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for (name,) in names:
            database.execute(f"DROP TRIGGER {name}")
        yield database


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        ("UPDATE records SET record = replace(record, 'x2', 'y2') WHERE seq = 3", 3),
        ("UPDATE records SET record = replace(record, 'x2', CAST(x'FF' AS TEXT)) WHERE seq = 3", 3),
        ("UPDATE records SET hash = replace(hash, substr(hash, 1, 1), 'g') WHERE seq = 4", 4),
        ("DELETE FROM records WHERE seq = 2", 2),
        ("DELETE FROM records WHERE seq <= 2", 3),
        ("INSERT INTO records (seq, record, hash) VALUES (6, '{}', 'abc')", 6),
        ("INSERT INTO records (seq, record, hash) VALUES (9, '{}', 'abc')", 6),
    ],
)
async def test_the_first_changed_record_is_found(tmp_path: Path, change: str, broken: int) -> None:
    path = tmp_path / "trail.sqlite3"
    await write(path, 5)
    assert verify(path).is_intact
    with open_without_triggers(path) as database:
        database.execute(change)
    assert verify(path).broken == broken


async def test_a_text_that_is_not_a_record_is_shown_among_the_others(tmp_path: Path) -> None:
    path = tmp_path / "trail.sqlite3"
    await write(path, 3)
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    path.write_bytes(path.read_bytes().replace(b'{"time"', b'["time"', 1))
    assert verify(path).broken is not None
    rows = read_page(path, AuditQuery())["rows"]
    assert [row["name"] for row in rows].count("not a record: verify the file") == 1
    assert len(rows) == 3


async def test_a_noted_hash_shows_that_the_last_records_were_removed(tmp_path: Path) -> None:
    path = tmp_path / "trail.sqlite3"
    await write(path, 5)
    head = verify(path).head
    assert head.seq == 5
    assert verify(path, head.hash).is_intact
    with open_without_triggers(path) as database:
        database.execute("DELETE FROM records WHERE seq = 5")
    assert verify(path).is_intact
    assert not verify(path, head.hash).is_intact


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE records SET record = '{}' WHERE seq = 2",
        "DELETE FROM records WHERE seq = 1",
        "DELETE FROM records",
        "INSERT INTO records (seq, record, hash) VALUES (9, '{}', '')",
        "INSERT OR REPLACE INTO records (seq, record, hash) VALUES (2, '{}', '')",
    ],
)
async def test_the_file_itself_rejects_changes(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "trail.sqlite3"
    await write(path, 3)
    with closing(sqlite3.connect(path)) as database, pytest.raises(sqlite3.IntegrityError):
        database.execute(statement)
    assert verify(path).checked == 3


@BOTH_LOOPS
async def test_writers_of_one_file_make_one_chain(tmp_path: Path) -> None:
    path = tmp_path / "trail.sqlite3"
    async with anyio.create_task_group() as tasks:
        for name in "abc":
            tasks.start_soon(lambda name=name: write(path, 40, name=name))
    assert verify(path).checked == 120
    names = [record["name"] for record in read_records(path)]
    for name in "abc":
        assert [name_of_record for name_of_record in names if name_of_record.startswith(name)] == [
            f"{name}{number}" for number in range(40)
        ]


def test_servers_that_share_a_file_make_one_chain(tmp_path: Path) -> None:
    settings = write_settings(tmp_path)
    with run_server(settings) as first, run_server(settings) as second:
        for server, name in ((first, "first"), (second, "second")):
            server.send_calls([f"{name}-{number}" for number in range(100)])
        for server in (first, second):
            responses = server.read_responses()
            assert len({next(responses)["id"] for _ in range(100)}) == 100
    records = read_records(tmp_path / "trail.sqlite3")
    assert len({record["call"] for record in records}) == 200
    assert len({record["pid"] for record in records}) == 2
    assert verify(tmp_path / "trail.sqlite3").checked == 200


async def test_old_records_are_removed_up_to_an_anchor(tmp_path: Path) -> None:
    path = tmp_path / "trail.sqlite3"
    await write(path, 5, age=2 * DAY)
    last_removed = verify(path).head
    await write(path, 1, limits=Retention(age=DAY))
    anchor = await anyio.to_thread.run_sync(lambda: wait_for_record(path, kind="anchor"))
    await write(path, 2)
    report = verify(path)
    assert report.is_intact
    assert (report.removed, report.checked) == (5, 4)
    assert verify(path, last_removed.hash).is_intact
    assert (anchor["through"], anchor["hash"]) == (5, last_removed.hash)
    with open_without_triggers(path) as database:
        database.execute("DELETE FROM records WHERE seq = 6")
    assert verify(path).broken == 7


async def test_the_oldest_records_of_a_too_large_file_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention_module, "CHUNK", 100)
    path = tmp_path / "trail.sqlite3"
    await write(path, 1200, limits=Retention(size=100_000))
    report = verify(path)
    assert report.is_intact
    assert report.removed >= 100
    assert path.stat().st_size < 250_000
    with open_trail(path) as trail:
        assert trail.read_latest(AuditQuery(name="x*"), limit=1).rows[0].parse_record()["name"] == "x1199"


async def test_a_failed_removal_is_logged_and_fails_no_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> int:
        raise sqlite3.OperationalError("the disk is on fire")

    monkeypatch.setattr("mcp_bridge._policies.audit_trail.writer.remove_old_records", fail)
    path = tmp_path / "trail.sqlite3"
    await write(path, 2, limits=Retention(age=DAY))
    assert verify(path).checked == 2
    assert "were not removed: the disk is on fire" in caplog.text


async def test_each_page_of_records_continues_the_last_one(tmp_path: Path) -> None:
    path = tmp_path / "trail.sqlite3"
    await write(path, 5)
    first = read_page(path, AuditQuery(), limit=2)
    second = read_page(path, AuditQuery(), limit=2, before=first["next"])
    last = read_page(path, AuditQuery(), limit=2, before=second["next"])
    rows = [*first["rows"], *second["rows"], *last["rows"]]
    assert [row["seq"] for row in rows] == [5, 4, 3, 2, 1]
    assert rows[0]["name"] == "x4"
    assert last["next"] is None


async def test_text_that_is_not_unicode_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "trail.sqlite3"
    await AuditWriter(path).append_record({"kind": "tool", "name": "\ud800", "time": "2026", "number": 2**70})
    [record] = read_records(path)
    assert record["name"] == "\ud800"
    assert verify(path).is_intact


async def test_a_trail_in_a_read_only_folder_can_be_read(tmp_path: Path) -> None:
    path, copy = tmp_path / "trail.sqlite3", tmp_path / "copy.sqlite3"
    await write(path, 2)
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    copy.write_bytes(path.read_bytes())
    # SQLite needs a file with this name.
    (tmp_path / "copy.sqlite3-shm").mkdir()
    assert verify(copy).checked == 2
