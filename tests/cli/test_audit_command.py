"""`mcp-bridge audit` reads, filters, follows and verifies an audit trail."""

from __future__ import annotations

import hashlib
import json
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_bridge._policies.audit_trail.reader import MAX_ROWS
from mcp_bridge._policies.audit_trail.writer import AuditWriter
from tests.kits.audit.audit_kit import write_settings
from tests.kits.cli.cli_running import RunHere

CALL = {"time": "2026-11-26T10:00:00.000000Z", "kind": "tool", "name": "add", "outcome": "ok", "duration_ms": 1.25}
DENIAL = {
    **CALL,
    "time": "2026-11-26T11:00:00.000000Z",
    "name": "remove",
    "principal": "ada",
    "client": "inspector 1",
    "outcome": "denied",
    "code": "approval_declined",
    "decisions": [{"policy": "approval", "decision": "denied", "by": "terminal"}],
}
GAP = {"time": "2026-11-26T12:00:00.000000Z", "kind": "gap", "lost": 3, "reason": "the disk is full"}


@pytest.fixture
def trail(tmp_path: Path) -> Path:
    """Write a trail with three records."""
    path = tmp_path / "trail.sqlite3"
    for record in (CALL, DENIAL, GAP):
        append(path, record)
    return path


def append(path: Path, record: dict[str, Any]) -> None:
    anyio.run(AuditWriter(path).append_record, record)


def test_records_are_shown_as_a_table(run_here: RunHere, trail: Path) -> None:
    header, call, denial, gap = run_here("audit", trail).out.splitlines()
    assert header.split()[:2] == ["number", "time"]
    assert call.split() == ["1", "2026-11-26", "10:00:00", "add", "ok", "1.2"]
    assert "ada" in denial
    assert denial.endswith("inspector 1  approval_declined; denied by approval (terminal)")
    assert gap.endswith("3 records were lost: the disk is full")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--tool", "a*"], [1]),
        (["--tool", "[a]dd"], []),
        (["--principal", "ada"], [2]),
        (["--outcome", "denied"], [2]),
        (["--since", "2026-11-26T10:30:00+00:00"], [2, 3]),
        (["--until", "2026-11-26T11:30:00+00:00", "--since", "2026-11-26T12:30:00+02:00"], [2]),
        (["--since", "2h", "--limit", "0"], []),
        (["--text", "INSPECTOR"], [2]),
        (["--limit", "2"], [2, 3]),
        (["--limit", "0"], [1, 2, 3]),
    ],
)
def test_options_select_records(run_here: RunHere, trail: Path, options: list[str], expected: list[int]) -> None:
    result = run_here("audit", trail, "--json", *options)
    assert [json.loads(line)["seq"] for line in result.out.splitlines()] == expected


def test_json_has_each_record_as_it_is_hashed(run_here: RunHere, trail: Path) -> None:
    previous = "0" * 64
    for line in run_here("audit", trail, "--json").out.splitlines():
        text = line.partition(',"record":')[2][:-1]
        previous = hashlib.sha256((previous + text).encode()).hexdigest()
        assert json.loads(line)["hash"] == previous


def test_more_records_than_a_page_has_are_exported_in_their_order(run_here: RunHere, tmp_path: Path) -> None:
    writer = AuditWriter(tmp_path / "trail.sqlite3")

    async def write() -> None:
        async with anyio.create_task_group() as tasks:
            for _ in range(MAX_ROWS + 1):
                tasks.start_soon(writer.append_record, CALL)

    anyio.run(write)
    lines = run_here("audit", writer.path, "--json", "--limit", "0").out.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, MAX_ROWS + 2))


def test_a_settings_file_names_its_trail(run_here: RunHere, trail: Path) -> None:
    settings = write_settings(trail.parent)
    assert run_here("audit", settings, "--verify").out.startswith(f"{trail} is intact: 3 records.")
    settings.write_text("sources: []", encoding="utf-8")
    result = run_here("audit", settings)
    assert (result.code, "have no audit trail" in result.err) == (2, True)


def test_an_inserted_anchor_does_not_hide_that_records_were_deleted(run_here: RunHere, trail: Path) -> None:
    settings = write_settings(trail.parent)
    with closing(sqlite3.connect(trail, isolation_level=None)) as database:
        (hash_of_second,) = database.execute("SELECT hash FROM records WHERE seq = 2").fetchone()
    append(trail, {"time": GAP["time"], "kind": "anchor", "through": 2, "hash": hash_of_second, "removed": 2})
    with closing(sqlite3.connect(trail, isolation_level=None)) as database:
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {name}")
        database.execute("DELETE FROM records WHERE seq <= 2")
    result = run_here("audit", settings, "--verify")
    assert result.code == 1
    assert "is BROKEN at record 1: the records up to 2 were removed, but the settings keep all records." in result.out
    assert "every writer of the file can add one" in run_here("audit", trail, "--verify").out


def test_verification_exits_with_1_and_names_the_broken_record(run_here: RunHere, trail: Path) -> None:
    result = run_here("audit", trail, "--verify")
    assert result.code == 0
    head = result.out.split()[-1]
    assert run_here("audit", trail, "--contains", head[:12]).code == 0
    result_for_hash = run_here("audit", trail, "--contains", "f" * 64)
    assert (result_for_hash.code, "is NOT the file that had" in result_for_hash.out) == (1, True)
    with closing(sqlite3.connect(trail, isolation_level=None)) as database:
        database.execute("DROP TRIGGER records_do_not_change")
        database.execute("UPDATE records SET record = replace(record, 'denied', 'ok') WHERE seq = 2")
    broken = run_here("audit", trail, "--verify")
    assert broken.code == 1
    assert "BROKEN at record 2" in broken.out
    report = json.loads(run_here("audit", trail, "--verify", "--json").out)
    assert (report["is_intact"], report["broken"], report["checked"]) == (False, 2, 1)


def test_a_record_that_was_changed_to_something_else_is_still_shown(run_here: RunHere, trail: Path) -> None:
    with closing(sqlite3.connect(trail, isolation_level=None)) as database:
        database.execute("DROP TRIGGER records_do_not_change")
        database.execute("UPDATE records SET record = json_set(record, '$.decisions', 5) WHERE seq = 2")
    assert "remove  denied" in run_here("audit", trail).out


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--since", "yesterday"], "--since: 'yesterday' is not a time"),
        (["--contains", ""], "--contains: '' is not a hash"),
        (["--contains", "1204"], "--contains: '1204' is not a hash"),
        (["--outcome", "fine"], "--outcome: unknown outcome 'fine'"),
    ],
)
def test_unknown_values_are_errors(run_here: RunHere, trail: Path, options: list[str], problem: str) -> None:
    result = run_here("audit", trail, *options)
    assert (result.code, problem in result.err) == (2, True)


def test_a_file_that_is_no_trail_is_an_error(run_here: RunHere, tmp_path: Path) -> None:
    assert "there is no audit trail at" in run_here("audit", tmp_path / "none").err
    (tmp_path / "text").write_text("hello", encoding="utf-8")
    result = run_here("audit", tmp_path / "text")
    assert (result.code, "is not an audit trail" in result.err) == (2, True)


def test_follow_shows_new_records_until_ctrl_c(trail: Path) -> None:
    command = [sys.executable, "-m", "mcp_bridge", "audit", str(trail), "--follow", "-n", "1", "--tool", "*"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().startswith("2  2026-11-26 11:00:00  remove")
        append(trail, GAP)
        append(trail, {**CALL, "name": "last"})
        assert process.stdout.readline().startswith("5  2026-11-26 10:00:00  last")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert "Traceback" not in process.stderr.read()
