"""Exit codes, and errors as a person reads them."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import time
from collections.abc import Iterator
from enum import IntEnum
from typing import TYPE_CHECKING

from mcp_bridge.contracts.errors import BridgeError, ConfigError, ToolNotFound

if TYPE_CHECKING:
    from mcp_bridge.registry.registry import ToolRegistry


class Exit(IntEnum):
    """What the command's exit code means."""

    OK = 0
    FAILED = 1
    """A called tool failed, `validate` or `doctor` found something, or no source could be loaded."""
    USAGE = 2
    """Wrong options, or settings that cannot be used."""
    NOT_FOUND = 3
    """There is no tool of that name."""


ENDING = 0.25
"""Seconds for the end of threads that nothing holds any more."""
CRASHES = "amplifier_core"
"""A package whose threads crash an interpreter that is being finalized (amplifier-core 1.0 to 2.0)."""
INTERRUPTED = 130
"""What shells call an end by Ctrl-C."""


def say(text: str) -> None:
    """Lines for the person, on stderr; a tool's text cannot steer the terminal."""
    print("\n".join(map(escaped, text.split("\n"))), file=sys.stderr, flush=True)


def escaped(line: str) -> str:
    """The line with its control characters spelled out, line breaks included."""
    return "".join(
        char if char.isprintable() or char == "\t" else char.encode("unicode_escape").decode() for char in line
    )


def counted(number: int, thing: str) -> str:
    """`1 tool`, `2 tools`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def published(registry: ToolRegistry) -> str:
    """How much of each kind there is, as a person says it; tools also when there are none."""
    others = ((len(registry.resources) + len(registry.templates), "resource"), (len(registry.prompts), "prompt"))
    return ", ".join([counted(len(registry), "tool"), *(counted(count, kind) for count, kind in others if count)])


@contextlib.contextmanager
def errors_for_people() -> Iterator[None]:
    """Turn the package's own errors into a line on stderr and an exit code; others are bugs and stay loud."""
    try:
        yield
    except BridgeError as error:
        say(f"mcp-bridge: {error}")
        raise SystemExit(code_of(error)) from None


def code_of(error: BridgeError) -> Exit:
    """The exit code of an error."""
    if isinstance(error, ConfigError):
        return Exit.USAGE
    return Exit.NOT_FOUND if isinstance(error, ToolNotFound) else Exit.FAILED


class LastExitHandler:
    """Ends the process before the interpreter is finalized, if it has an exit code.

    Exit handlers run in reverse order. Made before any tool is imported, this one runs after all handlers of tools.
    """

    def __init__(self) -> None:
        self.code: int | None = None
        atexit.register(self._end_process)

    def _end_process(self) -> None:
        if self.code is not None:
            _flush_streams()
            os._exit(self.code)


def leave(code: int, last_handler: LastExitHandler) -> None:
    """Exit now: a tool's thread that never ends would otherwise keep the process."""
    _close_the_log()
    _flush_streams()
    if threads_left():
        os._exit(code)
    if CRASHES in sys.modules:
        last_handler.code = code
    raise SystemExit(code)


def _flush_streams() -> None:
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        try:
            stream.flush()
        except (OSError, ValueError):  # the reader has gone: the interpreter would try again, and exit with 120
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        except Exception:  # a tool has put something else there
            setattr(sys, name, None)


def threads_left() -> bool:
    """Whether threads that the interpreter would wait for are still at work, those not that are just ending."""
    import threading

    until = time.monotonic() + ENDING
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.main_thread():
            thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive():
                return True
    return False


def _close_the_log() -> None:
    import logging

    logging.shutdown()
