"""The output of a worker reaches stderr, and a worker cannot affect the stderr of the bridge."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import psutil
import pytest
from anyio.abc import Process

from mcp_bridge._runtime.child_output import BURST, RATE, LineLabeller, relay_output
from tests.kits.constants import TIMEOUT
from tests.kits.loops import BOTH_LOOPS
from tests.kits.sandbox.sandbox_kit import needs_bubblewrap, needs_landlock

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="workers on Windows inherit stderr")
fcntl, tty = pytest.importorskip("fcntl"), pytest.importorskip("tty")

TOOLS = """
import fcntl, os, sys
from mcp_bridge import tool

@tool
def attack() -> str:
    print("a line of a tool", file=sys.stderr, flush=True)
    fcntl.fcntl(2, fcntl.F_SETFL, fcntl.fcntl(2, fcntl.F_GETFL) | os.O_NONBLOCK)
    done = []
    for number in (0, 1, 2):
        try:
            os.ftruncate(number, 0)
            done.append("truncated")
        except OSError:
            pass
        try:
            with open(f"/proc/self/fd/{number}", "r+b") as file:
                found = file.seek(0, 2)
                file.truncate(0)
            done.append(f"truncated {found} bytes")
        except (OSError, ValueError):
            pass
    return ", ".join(done) or "nothing"
"""
ISOLATIONS = [
    "process",
    pytest.param({"sandbox": "bubblewrap"}, marks=needs_bubblewrap),
    pytest.param({"sandbox": "landlock"}, marks=needs_landlock),
]


def call_attack(folder: Path, isolation: object, stderr: int) -> str:
    (folder / "own_tools.py").write_text(TOOLS)
    source = {"type": "python", "path": "own_tools.py", "isolation": isolation}
    (folder / "mcp-bridge.json").write_text(json.dumps({"sources": [source]}))
    command = [sys.executable, "-m", "mcp_bridge", "call", "attack"]
    process = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=stderr, timeout=TIMEOUT, check=True)
    return process.stdout.decode().strip()


@pytest.mark.parametrize("isolation", ISOLATIONS, ids=["process", "bubblewrap", "landlock"])
def test_a_worker_cannot_truncate_the_log_file(isolation: object, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    with log.open("wb") as file:
        file.write(b"an earlier line\n")
        file.flush()
        assert call_attack(tmp_path, isolation, file.fileno()) == "nothing"
    assert log.read_text().startswith("an earlier line\n")
    assert "a line of a tool" in log.read_text()


@pytest.mark.parametrize("isolation", ISOLATIONS, ids=["process", "bubblewrap", "landlock"])
def test_a_worker_cannot_make_the_bridge_s_stderr_nonblocking(isolation: object, tmp_path: Path) -> None:
    source, sink = os.pipe()
    try:
        call_attack(tmp_path, isolation, sink)
        assert not fcntl.fcntl(sink, fcntl.F_GETFL) & os.O_NONBLOCK
        assert b"a line of a tool" in os.read(source, 65536)
    finally:
        os.close(source)
        os.close(sink)


@contextlib.asynccontextmanager
async def run_script(script: str) -> AsyncIterator[Process]:
    async with await anyio.open_process([sys.executable, "-S", "-c", script], stdout=None) as process:
        with anyio.fail_after(TIMEOUT):
            yield process
        with contextlib.suppress(ProcessLookupError):
            process.kill()


@BOTH_LOOPS
async def test_the_whole_output_of_a_worker_is_written(tmp_path: Path) -> None:
    output: list[bytes] = []
    source, sink = os.pipe()

    def read_all() -> None:
        while data := os.read(source, 65536):
            output.append(data)

    reader = threading.Thread(target=read_all, daemon=True)
    reader.start()
    async with run_script("import sys; sys.stderr.write('x' * 1_000_000)") as process:
        assert process.stderr is not None
        await relay_output(process.stderr, sink)
    os.close(sink)
    reader.join(TIMEOUT)
    os.close(source)
    assert sum(map(len, output)) == 1_000_000


@BOTH_LOOPS
async def test_unread_output_neither_blocks_nor_keeps_the_event_loop_busy() -> None:
    # The output is larger than the buffer of the pipe, so a blocking write would never end.
    source, sink = os.pipe()
    async with run_script("import sys; sys.stderr.write('x' * 150_000)") as process:
        assert process.stderr is not None
        before = time.process_time()
        await relay_output(process.stderr, sink)
        # Waiting in a busy loop would take CPU time.
        assert time.process_time() - before < 1
    os.close(source)
    os.close(sink)


async def test_a_line_that_has_begun_is_written_to_its_end_when_a_terminal_continues() -> None:
    labeller, output = LineLabeller("files"), bytearray()
    master, terminal = os.openpty()
    os.set_blocking(terminal, False)
    tty.setraw(terminal)
    # The buffer of the terminal takes a part of the eight lines, and perhaps only the beginning of the last of these.
    # After a second without a reader, the other lines are dropped.
    await relay_script_output("print(('a' * 4_012 + chr(10)) * 8)", terminal, labeller)

    def read_all() -> None:
        while not output.endswith(b"the last line\n"):
            output.extend(os.read(master, 65_536))

    reader = threading.Thread(target=read_all, daemon=True)
    reader.start()
    await relay_script_output("print('the last line')", terminal, labeller)
    reader.join(TIMEOUT)
    lines = output.decode().splitlines()
    assert 2 < len(lines) < 9
    assert set(lines[:-1]) == {"[files] " + "a" * 4_012}
    assert lines[-1] == "[files] the last line"
    os.close(master)
    os.close(terminal)


async def relay_script_output(script: str, target: int, labeller: LineLabeller) -> None:
    """Run a script, and relay its output until it ends."""
    async with run_script(f"import sys; sys.stdout = sys.stderr; {script}") as process:
        assert process.stderr is not None
        await relay_output(process.stderr, target, labeller)


async def test_a_worker_that_prints_endlessly_is_throttled() -> None:
    with open(os.devnull, "wb") as sink:  # noqa: ASYNC230
        async with run_script("import os\nwhile True: os.write(2, b'x' * 65536)") as process:
            assert process.stderr is not None
            before = time.process_time()
            with anyio.move_on_after(2):
                await relay_output(process.stderr, sink.fileno())
            assert time.process_time() - before < 1
            count = psutil.Process(process.pid).io_counters().write_chars
    assert count < BURST + 4 * RATE
