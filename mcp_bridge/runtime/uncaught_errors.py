"""Logs what Python itself would write to stderr, because the log redacts secrets and its lines cannot be forged."""

from __future__ import annotations

import logging
import sys
import threading
from types import TracebackType

logger = logging.getLogger("mcp_bridge")


def catch() -> None:
    """Log warnings and uncaught exceptions, also those of threads and finalizers, from now on."""
    sys.excepthook = _uncaught
    sys.unraisablehook = _unraisable
    threading.excepthook = _of_thread
    logging.captureWarnings(True)
    logging.raiseExceptions = False  # it would print the arguments of a record that cannot be written


def _uncaught(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, traceback)
    else:
        logger.critical("the command ended with an unexpected error", exc_info=(kind, error, traceback))


def _unraisable(args: sys.UnraisableHookArgs) -> None:
    error = (args.exc_type, args.exc_value or args.exc_type(), args.exc_traceback)
    logger.error("%s %s", args.err_msg or "Exception ignored in", _shown(args.object), exc_info=error)


def _of_thread(args: threading.ExceptHookArgs) -> None:
    if issubclass(args.exc_type, SystemExit):
        return
    name = args.thread.name if args.thread is not None else "that has ended"
    error = (args.exc_type, args.exc_value or args.exc_type(), args.exc_traceback)
    logger.error("uncaught in thread %s", name, exc_info=error)


def _shown(thing: object) -> str:
    try:
        return repr(thing)
    except Exception:
        return f"a {type(thing).__name__}"
