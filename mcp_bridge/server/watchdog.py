"""The watchdog: says which tool holds the event loop, and for how long."""

from __future__ import annotations

import logging
import sys
import threading
import time
from types import FrameType
from typing import Any

import anyio
from anyio.abc import TaskStatus

from mcp_bridge.pipeline.prepared import Prepared
from mcp_bridge.runtime.thread_pool import Soon, from_any_thread

logger = logging.getLogger("mcp_bridge.server")

INTERVAL = 0.5
"""Seconds between two looks; a look at an idle server costs nothing that can be measured."""
PATIENCE = 0.5
"""Seconds that the loop may take to answer, before somebody is named."""


class Watchdog:
    """A thread that looks whether the loop still turns while calls run. `enter` and `leave` count these."""

    def __init__(self) -> None:
        self._calls = 0
        self._stop = threading.Event()

    def enter(self) -> None:
        """A call begins."""
        self._calls += 1

    def leave(self) -> None:
        """A call has ended."""
        self._calls -= 1

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Watch this loop until cancelled."""
        self._stop = threading.Event()
        watched = (from_any_thread(), threading.get_ident(), self._stop)
        threading.Thread(target=self._watch, args=watched, name="mcp-bridge watchdog", daemon=True).start()
        task_status.started()
        try:
            await anyio.sleep_forever()
        finally:
            self._stop.set()

    def _watch(self, soon: Soon, thread: int, stop: threading.Event) -> None:
        while not stop.wait(INTERVAL):
            if not self._calls:
                continue
            turned, asked = threading.Event(), time.monotonic()
            try:
                soon(turned.set)
            except RuntimeError:  # the loop has ended
                return
            if not turned.wait(PATIENCE):
                name = _holder(thread)
                logger.warning("%s holds the event loop: nothing else is answered meanwhile", name)
                while not turned.wait(INTERVAL):
                    if stop.is_set():
                        return
                logger.warning("%s held the event loop for %.1f seconds", name, time.monotonic() - asked)


def _holder(thread: int) -> str:
    """Who runs in the loop's thread: the tool by its name, and the line that it is at."""
    innermost = frame = sys._current_frames().get(thread)
    while frame is not None:
        if frame.f_code is Prepared.answer.__code__:
            prepared: Any = frame.f_locals["self"]
            return f"{prepared.name!r} (at {_place(innermost)})"
        frame = frame.f_back
    return f"something beside the tools (at {_place(innermost)})"


def _place(frame: FrameType | None) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "no known line"
