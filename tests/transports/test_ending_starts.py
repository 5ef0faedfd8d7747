"""A signal before anything is served: it cancels the start, and is never an exception in the middle of the loop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio

from mcp_bridge.transports.shutdown import ShutdownSignals

IMPORTS = """
import os, signal
os.kill(os.getpid(), signal.SIGTERM)
raise AssertionError("the import went on")
"""
MAIN = """
import anyio, importlib
from mcp_bridge.transports.shutdown import ShutdownSignals

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


def test_a_signal_in_the_middle_of_an_import_ends_the_import(tmp_path: Path) -> None:
    (tmp_path / "slow_to_import.py").write_text(IMPORTS)
    (tmp_path / "main.py").write_text(MAIN)
    done = subprocess.run(
        [sys.executable, "main.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended well\n", "")
