"""Exit codes, the report of errors to the user, and the end of the process."""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import sys
import time
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import NoReturn

from mcp_bridge._cli.output import report
from mcp_bridge._contracts.errors import BridgeError, ConfigError, ToolNotFound


class ExitCode(IntEnum):
    """The exit codes of the command."""

    OK = 0
    FAILED = 1
    """A tool call failed, a check found a problem, or no source could be loaded."""
    USAGE = 2
    """Invalid options or settings."""
    NOT_FOUND = 3
    """No tool has that name."""


THREAD_GRACE = 0.25
"""Seconds to wait for threads that are about to end."""
CRASHING_PACKAGE = "amplifier_core"
"""A package whose threads crash the interpreter during finalization (amplifier-core 1.0 to 2.0)."""
INTERRUPTED = 130
"""The exit code that shells use for Ctrl-C."""


def run_and_exit(run: Callable[[], None]) -> NoReturn:
    """Run a command, and exit with its code. Errors of this package are reported to the user."""
    last_handler = LastExitHandler()
    code: int | str | None = ExitCode.OK
    try:
        with report_errors():
            run()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except SystemExit as end:
        code = end.code
    exit_process(int(code or ExitCode.OK), last_handler)


@contextlib.contextmanager
def report_errors() -> Iterator[None]:
    """Report errors of this package on stderr, and exit with their code. Other exceptions are bugs, and propagate."""
    try:
        yield
    except BridgeError as error:
        report(f"mcp-bridge: {error}")
        code = ExitCode.FAILED
        if isinstance(error, ConfigError):
            code = ExitCode.USAGE
        elif isinstance(error, ToolNotFound):
            code = ExitCode.NOT_FOUND
        raise SystemExit(code) from None
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        report("mcp-bridge: nothing more can be written, because the device is full")
        raise SystemExit(ExitCode.FAILED) from None


def exit_with(*, ok: bool) -> NoReturn:
    """Exit with 0 if `ok`, else with 1."""
    raise SystemExit(ExitCode.OK if ok else ExitCode.FAILED)


class LastExitHandler:
    """Ends the process before the interpreter is finalized, if `code` is set.

    Exit handlers run in reverse order. This one is registered before any tool is imported, so it runs after all
    handlers of tools.
    """

    def __init__(self) -> None:
        self.code: int | None = None
        atexit.register(self._end_process)

    def _end_process(self) -> None:
        if self.code is not None:
            _flush_streams()
            os._exit(self.code)


def exit_process(code: int, last_handler: LastExitHandler) -> NoReturn:
    """Exit, even if a thread of a tool never ends. The interpreter would wait for such a thread."""
    import logging

    logging.shutdown()
    _flush_streams()
    if has_running_threads():
        os._exit(code)
    if CRASHING_PACKAGE in sys.modules:
        last_handler.code = code
    raise SystemExit(code)


def _flush_streams() -> None:
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        try:
            stream.flush()
        except (OSError, ValueError):
            # The reader has closed the pipe. The interpreter would flush the stream again, and exit with 120.
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        except Exception:
            # A tool has replaced the stream.
            setattr(sys, name, None)


def has_running_threads() -> bool:
    """Return whether the interpreter would wait for running threads. Threads about to end do not count."""
    import threading

    until = time.monotonic() + THREAD_GRACE
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.main_thread():
            thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive():
                return True
    return False
