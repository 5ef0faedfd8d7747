"""Tools that end or corrupt their process, and helpers to observe it."""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import anyio

from mcp_bridge import CallContext, tool


def print_to_stderr(word: str) -> None:
    """Print a word on stderr, which is the bridge's stderr."""
    print(word, file=sys.stderr, flush=True)


@tool
def pid() -> int:
    """Return the id of the process."""
    return os.getpid()


@tool
async def stays(token: str) -> str:
    """Run until a file with this name exists."""
    print_to_stderr(f"begun {token} {os.getpid()}")
    while not os.path.exists(token):  # noqa: ASYNC110, ASYNC240 - another process makes it
        await anyio.sleep(0.02)
    return f"stayed {token}"


@tool
async def invokes(ctx: CallContext, name: str, times: int = 1) -> list[str]:
    """Call another tool this many times concurrently."""
    results: list[str] = []

    async def one() -> None:
        result = await ctx.invoke(name, {})
        results.append(str(result.output) if result.success else f"{result.code}")

    async with anyio.create_task_group() as tasks:
        for _ in range(times):
            tasks.start_soon(one)
    return [str(os.getpid()), *results]


@tool
async def recurses_through_bridge(ctx: CallContext) -> str:
    """Call itself without end."""
    print_to_stderr(f"level {os.getpid()}")
    result = await ctx.invoke("recurses_through_bridge", {})
    return str(result.output or result.code)


@tool
async def async_sleeps(token: str) -> str:
    """Wait for long, and end when the call is cancelled."""
    print_to_stderr(f"begun {token} {os.getpid()}")
    await anyio.sleep(600)
    return "slept"


@tool
def sync_sleeps(token: str) -> str:
    """Hold a thread for long."""
    print_to_stderr(f"begun {token} {os.getpid()}")
    time.sleep(600)
    return "slept"


@tool
def environment() -> dict[str, str]:
    """All variables."""
    return dict(os.environ)


@tool
def wreck(kind: str) -> Any:
    """Do it in a thread."""
    return list_wrecks()[kind]()


@tool
async def wreck_async(kind: str) -> Any:
    """Do it on the event loop."""
    return list_wrecks()[kind]()


@tool
async def exits_in_child_task() -> str:
    """Raise SystemExit in an unawaited task."""

    async def ends() -> None:
        raise SystemExit(3)

    task = asyncio.create_task(ends())
    await asyncio.wait([task])
    return "answered"


@tool
def leaves_children(token: str, dies: bool) -> list[int]:
    """Start processes without an end, some of them outside the process group."""
    program = [sys.executable, "-S", "-c", "import time; time.sleep(600)", f"child-{token}"]
    daemon = f"import os, subprocess; os.fork() and os._exit(0); os.setsid(); subprocess.run({program!r})"
    processes = [
        subprocess.Popen(program),
        subprocess.Popen(program, start_new_session=True),
        subprocess.Popen([sys.executable, "-S", "-c", daemon, f"child-{token}"]),
    ]
    if not (forked := os.fork()):
        time.sleep(600)
    processes[2].wait()
    numbers = [os.getpid(), processes[0].pid, processes[1].pid, forked]
    print_to_stderr(f"begun {token} {' '.join(map(str, numbers))}")
    if dies:
        os._exit(9)
    return numbers


def list_wrecks() -> dict[str, Callable[[], Any]]:
    """Return the ways to corrupt or end a process."""
    return {
        "os._exit": lambda: os._exit(7),
        "segfault": lambda: ctypes.string_at(0),
        "abort": os.abort,
        "SIGKILL": lambda: os.kill(os.getpid(), signal.SIGKILL),
        "SIGKILL of its group": lambda: os.killpg(0, signal.SIGKILL),
        "SIGKILL of its parent": _kill_parent,
        "memory": lambda: len(bytearray(1 << 30)),
        "memory in small pieces": _pieces,
        "cpu": _busy,
        "every descriptor closed": lambda: (os.closerange(0, 256), time.sleep(600)),
        "garbage in every descriptor": _garbage,
        "half a line in every descriptor": lambda: (_write(b'{"say": "res'), os._exit(1)),
        "an endless line in every descriptor": _endless,
        "a stop of its own": lambda: os.kill(os.getpid(), signal.SIGSTOP),
        "a stop of its group": lambda: os.killpg(0, signal.SIGSTOP),
        "a blocked loop": lambda: time.sleep(600),
        "the GIL": lambda: re.match(r"(a+)+$", "a" * 60 + "!"),
        "an endless print": _prints,
        "200 MB": lambda: "x" * 200_000_000,
        "too many files": _files,
        "a large file": _large,
        "recursion in C": _deep,
        "signals": _signals,
        "chdir": lambda: os.chdir("/"),
        "environment": lambda: os.environ.clear(),
        "threads": _threads,
    }


def _kill_parent() -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(600)


def _pieces() -> None:
    pieces = []
    while True:
        pieces.append(bytearray(1 << 20))


def _busy() -> None:
    while True:
        pass


def _write(data: bytes) -> None:
    for descriptor in range(3, 21):
        try:
            os.write(descriptor, data)
        except OSError:
            continue


def _garbage() -> None:
    _write(b'\xff\x00 garbage\n[1]\n"x"\n{}\n')
    time.sleep(600)


def _endless() -> None:
    while True:
        _write(b"x" * 65536)


def _prints() -> None:
    end = time.monotonic() + 1
    while time.monotonic() < end:
        print("x" * 200)


def _files() -> int:
    files = []
    while True:
        files.append(open(os.devnull))  # noqa: SIM115


def _large() -> None:
    with open("large.bin", "wb") as file:
        for _ in range(64):
            file.write(b"x" * (1 << 20))


def _deep() -> Any:
    value: Any = []
    for _ in range(1_000_000):
        value = [value]
    return repr(value)


def _signals() -> str:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGXCPU):
        # The value 1 is SIG_IGN. Unlike signal.signal, this works in any thread.
        ctypes.CDLL(None).signal(number, 1)
    return "answered"


def _threads() -> str:
    import resource

    for _ in range(20):
        threading.Thread(target=time.sleep, args=(600,), daemon=False).start()
    return str(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
