"""Tools that start processes in every way, and say so; each process carries its token in its command line."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time

import anyio

from mcp_bridge import tool

LONG = "import sys, time; time.sleep(1000)"
DEAF = "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)"
WITH_A_CHILD = (
    "import subprocess, sys, time; subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(1000)',"
    " sys.argv[1]]); time.sleep(1000)"
)


def command(token: str, code: str = LONG) -> list[str]:
    """A process that never ends."""
    return [sys.executable, "-S", "-c", code, token]


def by_popen(token: str) -> None:
    subprocess.Popen(command(token))


def by_shell(token: str) -> None:
    subprocess.run(["sh", "-c", f"{sys.executable} -S -c '{LONG}' {token} & exit 0"], check=False)


def by_setsid(token: str) -> None:
    subprocess.run(["sh", "-c", f"setsid {sys.executable} -S -c '{LONG}' {token} & exit 0"], check=False)


def by_session(token: str) -> None:
    subprocess.Popen(command(token), start_new_session=True)


def by_double_fork(token: str) -> None:
    """A daemon as the books have it."""
    child = os.fork()
    if not child:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.execv(sys.executable, command(token))
    os.waitpid(child, 0)


def by_spawn(token: str) -> None:
    os.posix_spawn(sys.executable, command(token), dict(os.environ))


def by_system(token: str) -> None:
    os.system(f"{sys.executable} -S -c '{LONG}' {token} &")


def deaf(token: str) -> None:
    subprocess.Popen(command(token, DEAF))


def family(token: str) -> None:
    subprocess.Popen(command(token, WITH_A_CHILD), start_new_session=True)


def stopped(token: str) -> None:
    os.kill(subprocess.Popen(command(token)).pid, signal.SIGSTOP)


WAYS = {
    "popen": by_popen, "shell": by_shell, "setsid": by_setsid, "session": by_session, "double fork": by_double_fork,
    "posix_spawn": by_spawn, "system": by_system, "deaf": deaf, "family": family, "stopped": stopped,
}  # fmt: skip


def said(words: str) -> None:
    """Tell the test."""
    os.write(2, f"{words}\n".encode())


@tool
def starts(how: str, token: str) -> str:
    """Start a process and answer."""
    WAYS[how](token)
    return "started"


@tool
def holds(how: str, token: str) -> str:
    """Start a process and never answer; in a thread."""
    WAYS[how](token)
    said(f"begun {token}")
    time.sleep(5)  # a thread cannot be stopped, and this one should not keep the test
    return "too late"


@tool
async def holds_the_call(how: str, token: str) -> str:
    """Start a process and never answer; on the event loop."""
    WAYS[how](token)
    said(f"begun {token}")
    await anyio.sleep_forever()
    return "never"


@tool
async def awaits_process(token: str) -> str:
    """Start a process as async code does, and wait for it."""
    process = await asyncio.create_subprocess_exec(*command(token))
    said(f"begun {token}")
    return str(await process.wait())


@tool
def runs_process(token: str) -> str:
    """Run a process and wait for it; the answer is how it has ended."""
    said(f"begun {token}")
    code = subprocess.run(command(token), check=False).returncode
    said(f"freed {token} {code}")
    return str(code)


@tool
def runs_again(token: str) -> str:
    """Run a process again when it was ended, which a thread may do when nobody waits for it any more."""
    said(f"begun {token}")
    for number in range(3):
        subprocess.run(command(f"{token}"), check=False)
        said(f"again {token} {number}")
    return "done"
