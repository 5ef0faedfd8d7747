"""A worker's line to the bridge: a thread that hears, and a lock around what is said, so that any thread may speak."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import orjson

from mcp_bridge.contracts.errors import QuestionExpired
from mcp_bridge.isolation.words import Json, from_error, to_error
from mcp_bridge.runtime.descriptors import READ, Pipes
from mcp_bridge.runtime.line_splitter import Lines

LEAVING = 1.0
"""Seconds that the process has to end by itself once nobody listens any more."""
_LINE = 1 << 62
"""What the bridge says is bounded there."""


class Link:
    """What the bridge says goes to `takes`, but for answers. When it is gone, `leaves` is called, and the process ends.

    A thread of its own hears, because a tool may hold the event loop: a call that waits for an answer in a thread
    still gets it, and a worker does not outlive its bridge.
    """

    def __init__(self, pipes: Pipes) -> None:
        self._pipes = pipes
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._asked: dict[int, Future[Any]] = {}

    def listen(self, takes: Callable[[Json], None], leaves: Callable[[], None]) -> None:
        """Hear from now on."""
        threading.Thread(target=self._listen, args=(takes, leaves), name="mcp-bridge link", daemon=True).start()

    def first(self) -> Json:
        """The first line, waited for. Raises ValueError when there is none."""
        data = bytearray()
        while not data.endswith(b"\n"):
            byte = os.read(self._pipes.source, 1)
            if not byte:
                raise ValueError("nobody has an order for this process")
            data += byte
        order: Json = orjson.loads(data)
        return order

    def tell(self, message: Json) -> None:
        """Say something."""
        self.write(orjson.dumps(message) + b"\n")

    def write(self, line: bytes) -> None:
        """Say a line; nothing when nobody listens."""
        view = memoryview(line)
        with self._lock:
            while view:
                try:
                    view = view[os.write(self._pipes.sink, view) :]
                except OSError:  # the bridge has gone, and so will this process
                    return

    def ask(self, message: Json) -> Future[Any]:
        """Say something that wants an answer: a whole reply, or the error that the bridge answers with."""
        number = next(self._numbers)
        future = self._asked[number] = Future()
        self.tell({**message, "say": "ask", "ask": number})
        return future

    def _listen(self, takes: Callable[[Json], None], leaves: Callable[[], None]) -> None:
        lines = Lines(_LINE)
        try:
            while data := self._read():
                for line in lines.feed(data):
                    self._hear(orjson.loads(line or b"{}"), takes)
        finally:
            end = threading.Timer(LEAVING, os._exit, (0,))
            end.daemon = True
            end.start()
            self._give_up()
            leaves()

    def _hear(self, message: Json, takes: Callable[[Json], None]) -> None:
        if message["do"] == "reply":
            self._reply(message)
            return
        if message["do"] == "cancel":
            self._give_up()
        takes(message)

    def _give_up(self) -> None:
        """Nothing that was asked will be answered any more: threads that wait for it may end."""
        for number in list(self._asked):
            self._reply({"id": number, "error": from_error(QuestionExpired("The call was given up."))})

    def _read(self) -> bytes:
        try:
            return os.read(self._pipes.source, READ)
        except OSError:
            return b""

    def _reply(self, message: Json) -> None:
        future = self._asked.pop(message["id"], None)
        if future is None or not future.set_running_or_notify_cancel():
            return
        if "error" in message:
            future.set_exception(to_error(message["error"]))
        else:
            future.set_result(message)
