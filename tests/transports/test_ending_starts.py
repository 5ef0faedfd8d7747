"""A signal cancels a start, wakes a waiting server, and is never an exception in the middle of the loop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import anyio
import pytest

from mcp_bridge._transports.shutdown import ShutdownSignals
from tests.kits.constants import TIMEOUT

IMPORTS = """
import os, signal
os.kill(os.getpid(), signal.SIGTERM)
raise AssertionError("the import went on")
"""
MAIN = """
import anyio, importlib
from mcp_bridge._transports.shutdown import ShutdownSignals

async def main():
    with anyio.CancelScope() as scope, ending.handle_while_starting(scope.cancel):
        importlib.import_module("slow_to_import")

with ShutdownSignals() as ending:
    anyio.run(main)
print("ended well")
"""


def test_a_signal_while_the_loop_starts_cancels_the_start() -> None:
    reached: list[str] = []

    async def main() -> None:
        with anyio.CancelScope() as scope, ending.handle_while_starting(scope.cancel):
            os.kill(os.getpid(), signal.SIGTERM)
            reached.append("after the signal")
            await anyio.sleep_forever()
        assert scope.cancelled_caught

    with ShutdownSignals() as ending:
        anyio.run(main)
        reached.append("the end")
    assert reached == ["after the signal", "the end"]


@pytest.mark.skipif(sys.platform != "linux", reason="reads from /proc what the event loop is doing")
def test_a_signal_wakes_an_event_loop_that_waits() -> None:
    main_thread = Path(f"/proc/self/task/{threading.get_native_id()}/wchan")
    handled = threading.Event()

    def take_signal() -> bool:
        """Receive a signal in this thread, without interrupting the wait of the main one."""
        while "epoll" not in main_thread.read_text():
            os.sched_yield()
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        return handled.wait(TIMEOUT)

    async def main() -> None:
        with ending.handle_while_serving(handled.set, handled.set, 2 * TIMEOUT):
            assert await anyio.to_thread.run_sync(take_signal)
        assert signal.set_wakeup_fd(-1) == -1

    with ShutdownSignals() as ending:
        anyio.run(main)


def test_a_signal_in_the_middle_of_an_import_ends_the_import(tmp_path: Path) -> None:
    (tmp_path / "slow_to_import.py").write_text(IMPORTS)
    (tmp_path / "main.py").write_text(MAIN)
    process = subprocess.run(
        [sys.executable, "main.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (process.returncode, process.stdout, process.stderr) == (0, "ended well\n", "")
