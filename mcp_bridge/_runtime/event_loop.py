"""Makes event loops robust against the SystemExit of tools, and lets signals interrupt them immediately."""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Literal

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._version import DISTRIBUTION

logger = logging.getLogger("mcp_bridge.calls")

EventLoop = Literal["asyncio", "uvloop"]
LoopFactory = Callable[[], asyncio.AbstractEventLoop]
EXHAUSTION_ERRORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""The errors of `accept` after which asyncio waits for a second before it accepts again."""
REPORT_INTERVAL = 10.0
"""Seconds between two log lines about rejected connections."""
OWN_TASK = "mcp_bridge."
"""The start of the names of the server's own tasks. A task group of anyio names a task by its function."""

hide_task: Callable[[asyncio.Task[Any]], None] = asyncio._unregister_task
"""Leaves a task out of `asyncio.all_tasks`. A reference to it can still cancel it.

Python documents this function for authors of task classes ("Extending asyncio").
"""


class ResilientLoop(asyncio.AbstractEventLoop):
    """Runs until its main task is done, even if other tasks raise SystemExit or KeyboardInterrupt.

    These errors end asyncio's loop when any task or callback raises them (`Task.__step`, `Handle._run`). The loop keeps
    its queue, and the code that awaits the task receives the error, so the loop can be started again. Unlike a wrapper
    around each task, this costs nothing per call.

    `asyncio.all_tasks` does not list the main task and the server's own tasks. A tool that cancels all tasks, as many
    programs do at their end, thus cancels only tasks that third-party code has created.
    """

    _last_report = float("-inf")

    def run_until_complete(self, future: Any) -> Any:
        """Return the result of `future`. Ctrl-C raises KeyboardInterrupt as on any loop."""
        main: Any = asyncio.ensure_future(future, loop=self)
        if isinstance(main, asyncio.Task):
            hide_task(main)
        main.add_done_callback(self._stop_loop)
        try:
            while not main.done():
                try:
                    self.run_forever()
                except (SystemExit, KeyboardInterrupt) as error:
                    # The main task itself has raised the error. `main.result` raises it below.
                    if main.done():
                        break
                    if isinstance(error, KeyboardInterrupt) and _is_user_interrupt(main):
                        raise
                    logger.error("a task or callback outside of any call tried to end the server", exc_info=error)
                else:
                    if not main.done():
                        logger.error("something stopped the event loop; it continues")
        finally:
            main.remove_done_callback(self._stop_loop)
        return main.result()

    def create_task(self, coro: Any, **options: Any) -> Any:
        """Create a task. `asyncio.all_tasks` does not list it if its name starts with OWN_TASK."""
        task = super().create_task(coro, **options)
        if str(options.get("name")).startswith(OWN_TASK):
            hide_task(task)
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Handle an error in a callback. Exhausted system resources are reported in one line, not once per connection.

        Before Python 3.12.9, asyncio reports them for each place in the backlog, every second, each with a traceback
        (https://github.com/python/cpython/issues/127529).
        """
        error = context.get("exception")
        if not (isinstance(error, OSError) and error.errno in EXHAUSTION_ERRORS and "socket" in context):
            super().call_exception_handler(context)
        elif self.time() - self._last_report >= REPORT_INTERVAL:
            self._last_report = self.time()
            logger.error("new connections wait because the system is out of resources (%s)", error.strerror)

    def _stop_loop(self, _: object) -> None:
        self.stop()


def is_on_asyncio() -> bool:
    """Whether this code runs on asyncio, rather than on trio or outside of an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@contextmanager
def wake_on_signals() -> Iterator[None]:
    """During the block, a signal wakes this event loop, so handlers of the `signal` module run immediately.

    Python runs such a handler between two instructions. If asyncio's loop begins to wait just after the signal, the
    handler would run only after the next event. uvloop and trio need no help. Use it in the main thread.
    """
    receiver, sender = socket.socketpair()
    with receiver, sender:
        receiver.setblocking(False)
        sender.setblocking(False)
        before = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
        if before != -1:
            # The loop already has a descriptor that signals wake.
            signal.set_wakeup_fd(before, warn_on_full_buffer=False)
            yield
            return
        loop = asyncio.get_running_loop()
        try:
            loop.add_reader(receiver, receiver.recv, 4096)
            yield
        finally:
            loop.remove_reader(receiver)
            # Another handler may have been added to the loop in the meantime. Its descriptor stays.
            current = signal.set_wakeup_fd(-1)
            if current != sender.fileno():
                signal.set_wakeup_fd(current)


@contextmanager
def interrupt_imports() -> Iterator[None]:
    """Inside the block, Ctrl-C raises KeyboardInterrupt during the import of a module.

    asyncio's own handler only cancels the main task, without effect before the end of the import.
    """
    before = signal.getsignal(signal.SIGINT)
    if not callable(before) or threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle_signal(number: int, frame: FrameType | None) -> None:
        if is_importing(frame):
            raise KeyboardInterrupt
        before(number, frame)

    signal.signal(signal.SIGINT, handle_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def is_importing(frame: FrameType | None) -> bool:
    """Whether the code of this frame runs during the import of a module."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _is_user_interrupt(main: Any) -> bool:
    """Whether a KeyboardInterrupt may come from the user rather than from a tool."""
    # asyncio's handler of SIGINT cancels the main task first. Python's own handler raises the error anywhere.
    if isinstance(main, asyncio.Task) and main.cancelling():
        return True
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def make_loop_factory(event_loop: EventLoop = "asyncio") -> LoopFactory:
    """Return a factory of resilient event loops. Raises ConfigError when uvloop is unavailable.

    asyncio's own loop is the default because third-party code is written for it. uvloop differs: writing to a child
    process without a reader raises RuntimeError there, and `Process.communicate` does not suppress it.
    """
    # On Windows only the Proactor loop can start processes.
    bases: tuple[Any, ...] = (getattr(asyncio, "ProactorEventLoop", asyncio.SelectorEventLoop),)
    if event_loop == "uvloop":
        try:
            import uvloop
        except ImportError as error:
            hint = f"Run `pip install '{DISTRIBUTION}[uvloop]'` (CPython on Linux and macOS), or write `asyncio`"
            raise ConfigError("uvloop is not available in this Python", hint=hint) from error
        bases = (uvloop.Loop,)
    # The class of a loop is also a factory of loops.
    factory: LoopFactory = type("LastingLoop", (ResilientLoop, *bases), {})
    return factory
