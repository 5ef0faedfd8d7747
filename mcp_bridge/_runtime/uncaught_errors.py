"""Logs the messages of Python itself in place of stderr: warnings and uncaught exceptions.

The log redacts secrets, and its lines cannot be forged.
"""

from __future__ import annotations

import logging
import sys
import threading
from types import TracebackType

logger = logging.getLogger("mcp_bridge")


def install_hooks() -> None:
    """Log warnings and uncaught exceptions, also those of threads and finalizers, from now on."""
    sys.excepthook = _log_uncaught
    sys.unraisablehook = _log_unraisable
    threading.excepthook = _log_thread_error
    logging.captureWarnings(True)
    # Python would print the arguments of a log record that cannot be written, with their secrets.
    logging.raiseExceptions = False


def _log_uncaught(error_type: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if issubclass(error_type, KeyboardInterrupt):
        sys.__excepthook__(error_type, error, traceback)
    else:
        logger.critical("the command ended with an unexpected error", exc_info=(error_type, error, traceback))


def _log_unraisable(args: sys.UnraisableHookArgs) -> None:
    error = (args.exc_type, args.exc_value or args.exc_type(), args.exc_traceback)
    try:
        label = repr(args.object)
    except Exception:
        # A third-party __repr__ can raise anything.
        label = f"a {type(args.object).__name__}"
    logger.error("%s %s", args.err_msg or "Exception ignored in", label, exc_info=error)


def _log_thread_error(args: threading.ExceptHookArgs) -> None:
    # Like Python's own hook, this ignores the SystemExit of a thread.
    if issubclass(args.exc_type, SystemExit):
        return
    name = args.thread.name if args.thread is not None else "that has ended"
    error = (args.exc_type, args.exc_value or args.exc_type(), args.exc_traceback)
    logger.error("uncaught in thread %s", name, exc_info=error)
