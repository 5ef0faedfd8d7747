"""Formats tracebacks with the code of the user, without the frames of the bridge between the command and the tool."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from traceback import TracebackException

_PLUMBING = ("mcp_bridge", "anyio", "trio", "asyncio", "concurrent", "threading")
"""The modules between the command and the tool. Their frames are left out, unless no other frame would remain."""


def format_exception(error: BaseException) -> str:
    """Format an exception and its causes like Python does, without the frames of the bridge and its event loop."""
    exception = TracebackException.from_exception(error)
    folders = tuple(_list_folders())
    for linked in _list_linked(exception):
        # An exception from a worker process has the traceback of the worker as a note, and needs no frames of its own.
        notes = getattr(linked, "__notes__", None)
        has_worker_traceback = isinstance(notes, list) and any(str(note).startswith("Traceback ") for note in notes)
        user_frames = [frame for frame in linked.stack if not frame.filename.startswith(folders)]
        if user_frames or has_worker_traceback:
            linked.stack[:] = user_frames
    return "".join(exception.format()).rstrip("\n")


def _list_linked(exception: TracebackException) -> Iterator[TracebackException]:
    """Yield an exception, its causes, and the exceptions of a group."""
    yield exception
    for linked in (exception.__cause__, exception.__context__, *(exception.exceptions or ())):
        if linked is not None:
            yield from _list_linked(linked)


def _list_folders() -> Iterator[str]:
    for name in _PLUMBING:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file:
            yield os.path.dirname(file) + os.sep if os.path.basename(file) == "__init__.py" else file
