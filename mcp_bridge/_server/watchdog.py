"""Watchdog: logs which tool blocks the event loop, and for how long."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Collection
from types import FrameType
from typing import Any

import anyio
from anyio.abc import TaskStatus

from mcp_bridge._engine.prepared import PreparedEntry
from mcp_bridge._runtime.thread_pool import CallSoon, make_call_soon

logger = logging.getLogger("mcp_bridge.server")

INTERVAL = 0.5
"""Seconds between two checks. The cost of checking an idle server is not measurable."""
RESPONSE_TIMEOUT = 0.5
"""Seconds after which an event loop that does not run a callback counts as blocked."""


class Watchdog:
    """Checks in a thread, while there are `calls` in flight, whether the event loop still runs."""

    def __init__(self, calls: Collection[object]) -> None:
        self._calls = calls

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Watch this loop until cancelled."""
        stop = threading.Event()
        arguments = (make_call_soon(), threading.get_ident(), stop)
        threading.Thread(target=self._watch, args=arguments, name="mcp-bridge watchdog", daemon=True).start()
        task_status.started()
        try:
            await anyio.sleep_forever()
        finally:
            stop.set()

    def _watch(self, call_soon: CallSoon, thread: int, stop: threading.Event) -> None:
        while not stop.wait(INTERVAL):
            if not self._calls:
                continue
            callback_has_run = threading.Event()
            since = time.monotonic()
            try:
                call_soon(callback_has_run.set)
            except RuntimeError:
                # The event loop has ended.
                return
            if not callback_has_run.wait(RESPONSE_TIMEOUT):
                name = _find_running(thread)
                logger.warning("%s blocks the event loop: no other call is served meanwhile", name)
                while not callback_has_run.wait(INTERVAL):
                    if stop.is_set():
                        return
                logger.warning("%s blocked the event loop for %.1f seconds", name, time.monotonic() - since)


def _find_running(thread: int) -> str:
    """Return the name of the tool that runs in a thread, and the line it executes.

    The tool is found by the frame of PreparedEntry.run, which runs every handler.
    """
    innermost = frame = sys._current_frames().get(thread)
    while frame is not None:
        if frame.f_code is PreparedEntry.run.__code__:
            prepared: Any = frame.f_locals["self"]
            return f"{prepared.name!r} (at {_format_line(innermost)})"
        frame = frame.f_back
    return f"code outside the tools (at {_format_line(innermost)})"


def _format_line(frame: FrameType | None) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "an unknown line"
