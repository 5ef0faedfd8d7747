"""Writing lines in the background: files are rotated, several processes share them, and no disk holds up a call."""

from __future__ import annotations

import errno
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_bridge._integrations.amplifier.source import events_log
from mcp_bridge._integrations.amplifier.source.events_log import LineWriter, SharedFileHandler
from tests.kits.constants import TIMEOUT


@pytest.fixture
def writer() -> Iterator[LineWriter]:
    """A writer of files of 100 bytes, which keeps two older ones."""
    made = LineWriter(100, backups=2)
    yield made
    made.close(TIMEOUT)


def of(path: Path) -> list[str]:
    """The lines of a file and of those before it, from the oldest on."""
    older = sorted(path.parent.glob(f"{path.name}.*"), key=lambda one: -int(one.suffix[1:]))
    return [line for one in [*older, path] for line in one.read_text().splitlines()]


def test_lines_come_in_order_and_are_there_once_it_is_closed(writer: LineWriter, tmp_path: Path) -> None:
    one, other = tmp_path / "deep" / "er" / "one", tmp_path / "other"
    for number in range(3):
        writer.write(one, b"%d\n" % number)
        writer.write(other, b"x%d\n" % number)
    writer.close(TIMEOUT)
    assert (of(one), of(other)) == (["0", "1", "2"], ["x0", "x1", "x2"])
    writer.write(one, b"again\n")
    writer.close(TIMEOUT)
    assert of(one) == ["0", "1", "2", "again"]


@pytest.mark.skipif(sys.platform == "win32", reason="modes of files are those of POSIX")
def test_what_it_makes_is_for_its_owner_alone_and_what_is_there_keeps_its_mode(
    writer: LineWriter, tmp_path: Path
) -> None:
    new, old = tmp_path / "folder" / "new", tmp_path / "old"
    old.touch(0o640)
    old.chmod(0o640)
    for path in (new, old):
        writer.write(path, b"x\n")
    writer.close(TIMEOUT)
    assert [path.stat().st_mode & 0o777 for path in (new.parent, new, old)] == [0o700, 0o600, 0o640]


def test_a_file_that_would_grow_too_large_is_rotated_and_old_ones_go(writer: LineWriter, tmp_path: Path) -> None:
    path = tmp_path / "log"
    for number in range(30):
        writer.write(path, b"%029d\n" % number)
    writer.close(TIMEOUT)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["log", "log.1", "log.2"]
    assert all(one.stat().st_size <= 100 for one in tmp_path.iterdir())
    assert of(path) == [f"{number:029d}" for number in range(21, 30)]


def test_a_line_that_is_larger_than_a_file_has_one_of_its_own(writer: LineWriter, tmp_path: Path) -> None:
    path = tmp_path / "log"
    for line in (b"a\n", b"b" * 500 + b"\n", b"c\n"):
        writer.write(path, line)
    writer.close(TIMEOUT)
    assert [len(line) for line in of(path)] == [1, 500, 1]
    assert len(list(tmp_path.iterdir())) == 3


WRITES = """
import sys
from pathlib import Path
from mcp_bridge._integrations.amplifier.source.events_log import LineWriter
writer = LineWriter(2000, backups=1000)
for number in range(300):
    writer.write(Path(sys.argv[1]), f"{sys.argv[2]} {number:03d} {'x' * (number % 50)}\\n".encode())
    if number % 10 == 0:
        writer.close(60)
writer.close(60)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")
def test_several_processes_write_one_file_and_no_line_is_lost_or_torn(tmp_path: Path) -> None:
    path = tmp_path / "log"
    command = [sys.executable, "-c", WRITES, str(path)]
    running = [subprocess.Popen([*command, name]) for name in ("one", "two", "six")]
    assert [process.wait(TIMEOUT) for process in running] == [0, 0, 0]
    found = [line.split(" ") for line in of(path)]
    assert len(found) == 900
    for name in ("one", "two", "six"):
        own = [(int(number), len(rest)) for who, number, rest in found if who == name]
        assert own == [(number, number % 50) for number in range(300)]
    assert len(list(tmp_path.iterdir())) > 5


def test_what_cannot_be_written_is_told_once_and_again_when_it_fails_anew(
    writer: LineWriter, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "log"
    path.mkdir()
    for _ in range(3):
        writer.write(path, b"lost\n")
        writer.close(TIMEOUT)
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert f"{path} cannot be written, and events are dropped: " in caplog.text
    path.rmdir()
    writer.write(path, b"there\n")
    writer.close(TIMEOUT)
    assert of(path) == ["there"]
    path.unlink()
    path.mkdir()
    writer.write(path, b"lost\n")
    writer.close(TIMEOUT)
    assert len(caplog.records) == 2


def test_a_full_disk_leaves_no_half_line_behind(
    writer: LineWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path, write = tmp_path / "log", os.write
    writer.write(path, b"first\n")
    writer.close(TIMEOUT)

    def full(file: int, data: bytes) -> int:
        if len(data) > 3:
            return write(file, data[:3])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(events_log.os, "write", full)
        for _ in range(2):
            writer.write(path, b"second\n")
            writer.close(TIMEOUT)
    writer.write(path, b"third\n")
    writer.close(TIMEOUT)
    assert of(path) == ["first", "third"]
    assert [record.getMessage() for record in caplog.records] == [
        f"{path} cannot be written, and events are dropped: No space left on device"
    ]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_a_pipe_without_a_reader_holds_nobody_up(
    writer: LineWriter, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer.write(tmp_path / "pipe", b"lost\n")
    writer.close(TIMEOUT)
    assert "cannot be written" in caplog.text


def test_what_is_no_file_is_written_and_never_rotated(writer: LineWriter) -> None:
    for _ in range(50):
        writer.write(Path(os.devnull), b"x" * 90 + b"\n")
    writer.close(TIMEOUT)
    assert not Path(f"{os.devnull}.1").exists()


class SlowDisk:
    """A disk that writes nothing until it is released."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_writing, self.released = threading.Event(), threading.Event()
        emit = SharedFileHandler.emit

        def wait_and_emit(handler: SharedFileHandler, record: logging.LogRecord) -> None:
            self.is_writing.set()
            assert self.released.wait(TIMEOUT)
            emit(handler, record)

        monkeypatch.setattr(SharedFileHandler, "emit", wait_and_emit)


def test_a_disk_that_is_too_slow_costs_lines_and_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk, writer, path = SlowDisk(monkeypatch), LineWriter(max_pending=1000), tmp_path / "log"
    writer.write(path, b"first\n")
    assert disk.is_writing.wait(TIMEOUT)
    for _ in range(100):
        writer.write(path, b"x" * 99 + b"\n")
    disk.released.set()
    writer.close(TIMEOUT)
    assert len(of(path)) == 11
    assert "90 events were dropped: they come faster than they can be written" in caplog.text


def test_closing_does_not_wait_for_a_disk_for_ever_and_the_lines_are_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk, writer, path = SlowDisk(monkeypatch), LineWriter(), tmp_path / "log"
    writer.write(path, b"one\n")
    writer.write(path, b"two\n")
    writer.close(0.01)
    assert "the last lines were not written within 0.01 seconds" in caplog.text
    writer.write(path, b"three\n")
    disk.released.set()
    writer.close(TIMEOUT)
    end = time.monotonic() + TIMEOUT
    while len(of(path)) < 3:
        assert time.monotonic() < end
        time.sleep(0.01)
    assert sorted(of(path)) == ["one", "three", "two"]


def test_a_single_line_beyond_what_may_be_pending_is_written_all_the_same(tmp_path: Path) -> None:
    writer = LineWriter(max_pending=10)
    writer.write(tmp_path / "log", json.dumps("x" * 100).encode() + b"\n")
    writer.close(TIMEOUT)
    assert of(tmp_path / "log") == [json.dumps("x" * 100)]


def test_an_interpreter_that_exits_writes_the_pending_lines_though_nobody_has_closed_the_log(tmp_path: Path) -> None:
    code = WRITES.replace("    if number % 10 == 0:\n        writer.close(60)\n", "").replace("\nwriter.close(60)", "")
    assert "close" not in code
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path / "log"), "one"]).returncode == 0
    assert len(of(tmp_path / "log")) == 300
