"""The journal: whole lines in files that are turned over, by several processes, and no disk that holds anybody up."""

from __future__ import annotations

import errno
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_bridge.amplifier.source import journal as journals
from mcp_bridge.amplifier.source.journal import Journal

PATIENCE = 60.0


@pytest.fixture
def journal() -> Iterator[Journal]:
    """A journal of 100 bytes a file, which keeps two older ones."""
    made = Journal(100, kept=2)
    yield made
    made.close(PATIENCE)


def of(path: Path) -> list[str]:
    """The lines of a file and of those before it, from the oldest on."""
    older = sorted(path.parent.glob(f"{path.name}.*"), key=lambda one: -int(one.suffix[1:]))
    return [line for one in [*older, path] for line in one.read_text().splitlines()]


def test_lines_come_in_order_and_are_there_once_it_is_closed(journal: Journal, tmp_path: Path) -> None:
    one, other = tmp_path / "deep" / "er" / "one", tmp_path / "other"
    for number in range(3):
        journal.write(one, b"%d\n" % number)
        journal.write(other, b"x%d\n" % number)
    journal.close(PATIENCE)
    assert (of(one), of(other)) == (["0", "1", "2"], ["x0", "x1", "x2"])
    journal.write(one, b"again\n")
    journal.close(PATIENCE)
    assert of(one) == ["0", "1", "2", "again"]


@pytest.mark.skipif(sys.platform == "win32", reason="modes of files are those of POSIX")
def test_what_it_makes_is_for_its_owner_alone_and_what_is_there_keeps_its_mode(
    journal: Journal, tmp_path: Path
) -> None:
    new, old = tmp_path / "folder" / "new", tmp_path / "old"
    old.touch(0o640)
    old.chmod(0o640)
    for path in (new, old):
        journal.write(path, b"x\n")
    journal.close(PATIENCE)
    assert [path.stat().st_mode & 0o777 for path in (new.parent, new, old)] == [0o700, 0o600, 0o640]


def test_a_file_that_would_grow_too_large_is_turned_over_and_old_ones_go(journal: Journal, tmp_path: Path) -> None:
    path = tmp_path / "log"
    for number in range(30):
        journal.write(path, b"%029d\n" % number)
    journal.close(PATIENCE)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["log", "log.1", "log.2"]
    assert all(one.stat().st_size <= 100 for one in tmp_path.iterdir())
    assert of(path) == [f"{number:029d}" for number in range(21, 30)]


def test_a_line_that_is_larger_than_a_file_has_one_of_its_own(journal: Journal, tmp_path: Path) -> None:
    path = tmp_path / "log"
    for line in (b"a\n", b"b" * 500 + b"\n", b"c\n"):
        journal.write(path, line)
    journal.close(PATIENCE)
    assert [len(line) for line in of(path)] == [1, 500, 1]
    assert len(list(tmp_path.iterdir())) == 3


WRITES = """
import sys
from pathlib import Path
from mcp_bridge.amplifier.source.journal import Journal
journal = Journal(2000, kept=1000)
for number in range(300):
    journal.write(Path(sys.argv[1]), f"{sys.argv[2]} {number:03d} {'x' * (number % 50)}\\n".encode())
    if number % 10 == 0:
        journal.close(60)
journal.close(60)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")
def test_several_processes_write_one_file_and_no_line_is_lost_or_torn(tmp_path: Path) -> None:
    path = tmp_path / "log"
    command = [sys.executable, "-c", WRITES, str(path)]
    running = [subprocess.Popen([*command, name]) for name in ("one", "two", "six")]
    assert [process.wait(PATIENCE) for process in running] == [0, 0, 0]
    found = [line.split(" ") for line in of(path)]
    assert len(found) == 900
    for name in ("one", "two", "six"):
        own = [(int(number), len(rest)) for who, number, rest in found if who == name]
        assert own == [(number, number % 50) for number in range(300)]
    assert len(list(tmp_path.iterdir())) > 5


def test_what_cannot_be_written_is_told_once_and_again_when_it_fails_anew(
    journal: Journal, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "log"
    path.mkdir()
    for _ in range(3):
        journal.write(path, b"lost\n")
        journal.close(PATIENCE)
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert f"{path} cannot be written, and events are left out: " in caplog.text
    path.rmdir()
    journal.write(path, b"there\n")
    journal.close(PATIENCE)
    assert of(path) == ["there"]
    path.unlink()
    path.mkdir()
    journal.write(path, b"lost\n")
    journal.close(PATIENCE)
    assert len(caplog.records) == 2


def test_a_full_disk_leaves_no_half_line_behind(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path, write = tmp_path / "log", os.write
    journal.write(path, b"first\n")
    journal.close(PATIENCE)

    def full(file: int, data: bytes) -> int:
        if len(data) > 3:
            return write(file, data[:3])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(journals.os, "write", full)
        for _ in range(2):
            journal.write(path, b"second\n")
            journal.close(PATIENCE)
    journal.write(path, b"third\n")
    journal.close(PATIENCE)
    assert of(path) == ["first", "third"]
    assert [record.getMessage() for record in caplog.records] == [
        f"{path} cannot be written, and events are left out: No space left on device"
    ]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_a_pipe_without_a_reader_holds_nobody_up(
    journal: Journal, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    os.mkfifo(tmp_path / "pipe")
    journal.write(tmp_path / "pipe", b"lost\n")
    journal.close(PATIENCE)
    assert "cannot be written" in caplog.text


def test_what_is_no_file_is_written_and_never_turned_over(journal: Journal) -> None:
    for _ in range(50):
        journal.write(Path(os.devnull), b"x" * 90 + b"\n")
    journal.close(PATIENCE)
    assert not Path(f"{os.devnull}.1").exists()


class Slow(Journal):
    """A journal whose disk answers when it is let."""

    def __init__(self) -> None:
        super().__init__(waiting=1000)
        self.at_work, self.may = threading.Event(), threading.Event()

    def _append(self, path: Path, lines: list[bytes]) -> None:
        self.at_work.set()
        assert self.may.wait(PATIENCE)
        super()._append(path, lines)


def test_a_disk_that_is_too_slow_costs_lines_and_no_memory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    slow, path = Slow(), tmp_path / "log"
    slow.write(path, b"first\n")
    assert slow.at_work.wait(PATIENCE)
    for _ in range(100):
        slow.write(path, b"x" * 99 + b"\n")
    slow.may.set()
    slow.close(PATIENCE)
    assert len(of(path)) == 11
    assert "90 events were left out: they come faster than they can be written" in caplog.text


def test_the_end_waits_for_no_disk_for_ever(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    slow = Slow()
    slow.write(tmp_path / "log", b"x\n")
    slow.close(0.01)
    assert "the last lines were not written within 0.01 seconds" in caplog.text
    slow.may.set()


def test_a_single_line_beyond_what_may_wait_is_written_all_the_same(tmp_path: Path) -> None:
    journal = Journal(waiting=10)
    journal.write(tmp_path / "log", json.dumps("x" * 100).encode() + b"\n")
    journal.close(PATIENCE)
    assert of(tmp_path / "log") == [json.dumps("x" * 100)]
