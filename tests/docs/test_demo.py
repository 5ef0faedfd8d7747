"""`make demo` shows what it promises, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from typing import IO

import psutil
import pytest

from tests.kits.constants import TIMEOUT
from tests.kits.paths import ROOT
from tests.kits.waiting import wait_until


def test_the_demo_shows_a_result_progress_and_an_error() -> None:
    command = [sys.executable, "config/demo_client.py", "--once"]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert process.returncode == 0, process.stderr
    assert "21.5" in process.stdout
    assert "Counted to 20." in process.stdout
    assert "There is no city 'Atlantis'" in process.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_a_signal_ends_the_demo_with_all_its_processes(number: str) -> None:
    with run_demo() as (demo, environ):
        (port,) = re.findall(r"on http://127.0.0.1:(\d+)/mcp", read_until(demo.stdout, "Press Ctrl-C to stop."))
        socket.create_connection(("127.0.0.1", int(port)), TIMEOUT).close()
        assert find_processes_with(environ)
        if number == "SIGTERM":
            # `make` passes it on.
            demo.send_signal(signal.SIGTERM)
        else:
            # A terminal sends it to all processes in the foreground.
            os.killpg(demo.pid, signal.Signals[number])
        demo.wait(TIMEOUT)
        wait_until(lambda: not find_processes_with(environ))
        wait_until(lambda: is_free(int(port)))


@contextlib.contextmanager
def run_demo() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `make demo` in the environment of the tests, without a display. Yield it with a mark of its processes."""
    make = shutil.which("make")
    assert make is not None
    mark = uuid.uuid4().hex
    environ = {name: value for name, value in os.environ.items() if "DISPLAY" not in name and "MAKE" not in name}
    prefix = sys.prefix
    demo = subprocess.Popen(
        [make, "demo", f"VENV={prefix}", "-o", f"{prefix}/.demo"],
        cwd=ROOT,
        env={**environ, "DEMO_MARK": mark},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield demo, mark
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(demo.pid, signal.SIGKILL)
        demo.communicate()


def read_until(stream: IO[str], text: str) -> str:
    """Return what a stream contains up to the end of the line with a text."""
    lines = []
    for line in stream:
        lines.append(line)
        if text in line:
            return "".join(lines)
    raise AssertionError("".join(lines))


def find_processes_with(mark: str) -> list[psutil.Process]:
    """Return the running processes with a mark in their environment."""
    processes = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("DEMO_MARK") == mark and process.status() != psutil.STATUS_ZOMBIE:
                processes.append(process)
    return processes


def is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
