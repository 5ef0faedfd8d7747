"""Sends what Python itself writes to stderr through the log, where secrets are redacted and lines cannot be forged."""

from __future__ import annotations

import logging
import sys
import threading
from types import TracebackType

logger = logging.getLogger("mcp_bridge")


def catch() -> None:
    """Have uncaught exceptions, of threads and finalizers too, and warnings logged from now on."""
    sys.excepthook = _uncaught
    sys.unraisablehook = _unraisable
    threading.excepthook = _of_thread
    logging.captureWarnings(True)
    logging.raiseExceptions = False  # a record that cannot be written would be told with its arguments


def _uncaught(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, traceback)
    else:
        logger.critical("the command ended with an unexpected error", exc_info=(kind, error, traceback))


def _unraisable(found: sys.UnraisableHookArgs) -> None:
    raised = (found.exc_type, found.exc_value or found.exc_type(), found.exc_traceback)
    logger.error("%s %s", found.err_msg or "Exception ignored in", _shown(found.object), exc_info=raised)


def _of_thread(found: threading.ExceptHookArgs) -> None:
    if issubclass(found.exc_type, SystemExit):
        return
    name = found.thread.name if found.thread is not None else "that has ended"
    raised = (found.exc_type, found.exc_value or found.exc_type(), found.exc_traceback)
    logger.error("uncaught in thread %s", name, exc_info=raised)


def _shown(thing: object) -> str:
    try:
        return repr(thing)
    except Exception:
        return f"a {type(thing).__name__}"
