"""Exit codes, errors as messages for the user, and the end of the process."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from enum import IntEnum

from mcp_bridge.cli.output import report
from mcp_bridge.contracts.errors import BridgeError, ConfigError, ToolNotFound


class Exit(IntEnum):
    """The exit codes of the command."""

    OK = 0
    FAILED = 1
    """A tool call failed, a check found a problem, or no source could be loaded."""
    USAGE = 2
    """Invalid options or settings."""
    NOT_FOUND = 3
    """No tool has that name."""


ENDING = 0.25
"""Seconds to wait for threads that are about to end."""
CRASHES = "amplifier_core"
"""A package whose threads crash the interpreter during finalization (amplifier-core 1.0 to 2.0)."""
INTERRUPTED = 130
"""The exit code that shells use for Ctrl-C."""


@contextlib.contextmanager
def errors_for_people() -> Iterator[None]:
    """Report the package's own errors on stderr and exit with their code; other exceptions are bugs and propagate."""
    try:
        yield
    except BridgeError as error:
        report(f"mcp-bridge: {error}")
        raise SystemExit(code_of(error)) from None


def code_of(error: BridgeError) -> Exit:
    """Return the exit code of an error."""
    if isinstance(error, ConfigError):
        return Exit.USAGE
    return Exit.NOT_FOUND if isinstance(error, ToolNotFound) else Exit.FAILED


def leave(code: int) -> None:
    """Exit now, even if a tool's thread never ends: the interpreter would wait for it."""
    _close_the_log()
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        try:
            stream.flush()
        except (OSError, ValueError):  # the pipe is closed: the interpreter would flush again and exit with 120
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        except Exception:  # a tool has replaced the stream
            setattr(sys, name, None)
    if CRASHES in sys.modules:
        _run_at_exit()
        os._exit(code)
    if threads_left():
        os._exit(code)
    raise SystemExit(code)


def threads_left() -> bool:
    """Whether threads are running that the interpreter would wait for; threads about to end do not count."""
    import threading

    until = time.monotonic() + ENDING
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.main_thread():
            thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive():
                return True
    return False


def _run_at_exit() -> None:
    """What modules have asked to be called at the end, before an end that the interpreter hears nothing of."""
    import atexit

    with contextlib.suppress(BaseException):
        atexit._run_exitfuncs()


def _close_the_log() -> None:
    import logging

    logging.shutdown()
