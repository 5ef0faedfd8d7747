"""Tools that start a process in every possible way. Each process has a token in its command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from mcp_bridge import tool

LONG = "import sys, time; time.sleep(1000)"
DEAF = "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)"
WITH_A_CHILD = (
    "import subprocess, sys, time; subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(1000)',"
    " sys.argv[1]]); time.sleep(1000)"
)


def command(token: str, code: str = LONG) -> list[str]:
    """Return the command of a process without an end."""
    return [sys.executable, "-S", "-c", code, token]


def by_popen(token: str) -> None:
    subprocess.Popen(command(token))


def by_setsid(token: str) -> None:
    subprocess.run(["sh", "-c", f"setsid {sys.executable} -S -c '{LONG}' {token} & exit 0"], check=False)


def by_session(token: str) -> None:
    subprocess.Popen(command(token), start_new_session=True)


def by_double_fork(token: str) -> None:
    """Start a daemon with two forks."""
    child = os.fork()
    if not child:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.execv(sys.executable, command(token))
    os.waitpid(child, 0)


def deaf(token: str) -> None:
    subprocess.Popen(command(token, DEAF))


def family(token: str) -> None:
    subprocess.Popen(command(token, WITH_A_CHILD), start_new_session=True)


def stopped(token: str) -> None:
    os.kill(subprocess.Popen(command(token)).pid, signal.SIGSTOP)


WAYS = {
    "popen": by_popen, "setsid": by_setsid, "session": by_session, "double fork": by_double_fork, "deaf": deaf,
    "family": family, "stopped": stopped,
}  # fmt: skip


@tool
def starts(how: str, token: str) -> str:
    """Start a process and return."""
    WAYS[how](token)
    return "started"
