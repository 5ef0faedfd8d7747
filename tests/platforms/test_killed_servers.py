"""Processes end after a server was killed, also where poll does not report the end of their input."""

from __future__ import annotations

import contextlib
import json

import psutil

from tests.kits.cli.cli_running import format_requests, make_call
from tests.kits.constants import TIMEOUT
from tests.kits.platforms.simulated_systems import SimulatedComputer
from tests.kits.waiting import wait_until

PROGRAM = """
import os, time
with open("pid.new", "w") as file:
    file.write(str(os.getpid()))
os.rename("pid.new", "pid")
time.sleep(600)
"""


def test_a_command_on_macos_ends_after_its_server_was_killed(macos: SimulatedComputer) -> None:
    (macos.folder / "program.py").write_text(PROGRAM)
    tool = {"description": "Waits.", "command": [str(macos.python), "program.py"]}
    settings = {"sources": [{"type": "command", "tools": {"wait": tool}}]}
    (macos.folder / "tools.json").write_text(json.dumps(settings))
    with macos.start("serve", "tools.json") as server:
        assert server.stdin is not None
        server.stdin.write(format_requests(make_call("wait")))
        server.stdin.flush()
        file = macos.folder / "pid"
        wait_until(file.exists)
        program = psutil.Process(int(file.read_text()))
        server.kill()
        try:
            program.wait(TIMEOUT)
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):
                program.kill()
