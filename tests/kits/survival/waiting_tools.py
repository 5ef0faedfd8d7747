"""Tools that wait, block, leave things behind, or change shared state."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import locale
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import anyio

from mcp_bridge import tool


def get_released_tokens() -> set[str]:
    """Return the tokens that `free` has released. They are in `sys`, and so not part of this module."""
    tokens: set[str] = sys.__dict__.setdefault("_survival", set())
    return tokens


@tool
async def blocks(seconds: float) -> str:
    """Hold the event loop."""
    time.sleep(seconds)  # noqa: ASYNC251 - that is the fault
    return "slept"


@tool
def holds(token: str) -> str:
    """Hold a thread until `free` is called with this token."""
    while token not in get_released_tokens():
        time.sleep(0.01)
    return "freed"


@tool
async def free(token: str) -> str:
    """Let the calls that wait for this token return."""
    get_released_tokens().add(token)
    return "freed"


@tool
async def swallows(times: int) -> str:
    """Suppress this many cancellations."""
    for _ in range(times):
        with contextlib.suppress(BaseException):
            await anyio.sleep(60)
    return "went on"


@tool
async def shields(token: str) -> str:
    """Continue in a shielded scope until released, and suppress asyncio's cancellation, which ignores the shield."""
    with anyio.CancelScope(shield=True):
        while token not in get_released_tokens():
            with contextlib.suppress(asyncio.CancelledError):
                await anyio.sleep(0.01)
    return "went on"


@tool
async def never_gives_up(token: str) -> str:
    """Suppress every cancellation until `free` is called with this token."""
    while token not in get_released_tokens():
        with contextlib.suppress(BaseException):
            await asyncio.sleep(60)
    return "went on"


def list_leftovers() -> dict[str, Callable[[], Any]]:
    """Return the things a tool may leave behind."""
    child = "import time; time.sleep(600)"
    return {
        "a child": lambda: subprocess.Popen([sys.executable, "-c", child]),
        "a child in a session of its own": lambda: subprocess.Popen(
            [sys.executable, "-c", child], start_new_session=True, stdin=subprocess.DEVNULL
        ),
        "a forked child": _fork,
        "a thread": lambda: threading.Thread(target=time.sleep, args=(600,)).start(),
        "a daemon thread": lambda: threading.Thread(target=time.sleep, args=(600,), daemon=True).start(),
        "an atexit handler that raises": lambda: atexit.register(_raise, "at exit"),
        "an atexit handler that ends": lambda: atexit.register(os._exit, 0),
    }


def _fork() -> None:
    if not os.fork():
        time.sleep(600)
        os._exit(0)


@tool
def leaves(kind: str) -> str:
    """Leave it behind."""
    list_leftovers()[kind]()
    return "answered"


@tool
async def leaves_a_task(kind: str) -> str:
    """Leave a task behind without an end, or one that suppresses its cancellation."""

    async def goes_on() -> None:
        while True:
            with contextlib.suppress(BaseException if kind == "stubborn" else ValueError):
                await asyncio.sleep(60)

    sys.__dict__["_survival_task"] = asyncio.create_task(goes_on())
    await anyio.sleep(0.01)
    return "answered"


def list_changes() -> dict[str, Callable[[], Any]]:
    """Return the changes of shared state."""
    return {
        "a thread that raises": lambda: _in_thread(_raise, "in a thread", ValueError("in a thread")),
        "a thread that exits": lambda: _in_thread(sys.exit, 3),
        "a thread with a KeyboardInterrupt": lambda: _in_thread(_raise, "in a thread", KeyboardInterrupt()),
        "the working directory": lambda: os.chdir("/"),
        "the locale": lambda: locale.setlocale(locale.LC_ALL, "C"),
        "a higher recursion limit": lambda: sys.setrecursionlimit(5000),
        "warnings as errors": lambda: warnings.simplefilter("error"),
        "an empty environment": os.environ.clear,
        "no module path": lambda: sys.path.clear(),
        "a trace function": lambda: sys.settrace(lambda *_: _raise("traced")),
        "an excepthook that raises": lambda: setattr(sys, "excepthook", _raise),
        "a threading.excepthook that raises": lambda: setattr(threading, "excepthook", _raise),
    }


def _raise(*arguments: Any) -> None:
    """Raise the second of two arguments if it is an error, else a SystemExit with the first one as its text."""
    if len(arguments) == 2 and isinstance(arguments[1], BaseException):
        raise arguments[1]
    raise SystemExit(str(arguments[0]))


def _in_thread(function: Callable[..., Any], *args: Any) -> None:
    thread = threading.Thread(target=function, args=args)
    thread.start()
    thread.join()


@tool
async def alters(kind: str) -> str:
    """Do it on the event loop."""
    list_changes()[kind]()
    return "answered"


@tool
async def on_the_loop(what: str) -> str:
    """Do something to the event loop itself."""
    loop = asyncio.get_running_loop()
    if what == "stop":
        loop.stop()
    elif what == "close":
        loop.close()
    elif what == "a callback that exits":
        loop.call_soon(_raise, "in a callback")
    elif what == "a callback from a thread that exits":
        threading.Thread(target=loop.call_soon_threadsafe, args=(_raise, "in a callback")).start()
    elif what == "a reader that exits":
        source, sink = os.pipe()
        loop.add_reader(source, lambda: (loop.remove_reader(source), _raise("in a reader")))
        os.write(sink, b"x")
    elif what == "a task factory that raises":
        loop.set_task_factory(lambda *_, **__: _raise("no task"))
        loop.call_soon(loop.set_task_factory, None)
    elif what == "a handler that raises":
        loop.set_exception_handler(lambda *_: _raise("handled"))
        loop.call_soon(lambda: 1 / 0)
    await anyio.sleep(0.05)
    return "answered"
