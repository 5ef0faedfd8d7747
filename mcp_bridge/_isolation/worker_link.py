"""A worker's connection to the bridge: a thread receives, and any thread may send."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from mcp_bridge._contracts.errors import QuestionExpired
from mcp_bridge._isolation.codec import Json, decode_error, encode_error
from mcp_bridge._protocol.line_channel import BlockingLineChannel
from mcp_bridge._runtime.stdio_descriptors import StdioPipes

EXIT_TIMEOUT = 1.0
"""Seconds that the process has to end by itself once the bridge has gone."""


class WorkerLink:
    """Sends requests and notifications to the bridge, and receives its messages.

    A thread of its own receives, because a tool may block the event loop: a call that waits for a response in a thread
    still gets it, and a worker does not outlive its bridge.
    """

    def __init__(self, pipes: StdioPipes) -> None:
        self._channel = BlockingLineChannel(pipes.source, pipes.sink)
        self.send_message = self._channel.send
        self.send_line = self._channel.send_line
        self._numbers = itertools.count(1)
        self._asked: dict[int, Future[Any]] = {}
        self._cancelled_call: Any = None

    def listen(self, on_message: Callable[[Json], None], on_end: Callable[[], None]) -> None:
        """Start to receive.

        `on_message` gets all messages but responses. When the bridge has gone, `on_end` is called and the process ends.
        """
        threading.Thread(
            target=self._receive_messages, args=(on_message, on_end), name="mcp-bridge link", daemon=True
        ).start()

    def read_order(self) -> Json:
        """Wait for the first line and return it. Raises ValueError if the input ends before."""
        order: Json | None = self._channel.receive()
        if order is None:
            raise ValueError("the input has ended without an order for this worker")
        return order

    def send_request(self, message: Json) -> Future[Any]:
        """Send a request. The future has the whole response, or raises the error in it."""
        number = next(self._numbers)
        future = self._asked[number] = Future()
        # The bridge does not respond to requests of a cancelled call.
        if message["id"] == self._cancelled_call:
            self._fail_request(number)
        else:
            self.send_message({**message, "say": "ask", "ask": number})
        return future

    def _receive_messages(self, on_message: Callable[[Json], None], on_end: Callable[[], None]) -> None:
        try:
            while (message := self._channel.receive()) is not None:
                self._handle_message(message, on_message)
        finally:
            end = threading.Timer(EXIT_TIMEOUT, os._exit, (0,))
            end.daemon = True
            end.start()
            self._fail_requests()
            on_end()

    def _handle_message(self, message: Json, on_message: Callable[[Json], None]) -> None:
        if message["do"] == "reply":
            self._finish_request(message)
            return
        on_message(message)
        if message["do"] == "cancel":
            self._cancelled_call = message["id"]
            self._fail_requests()

    def _fail_requests(self) -> None:
        """Fail all pending requests, so threads do not wait for them any longer."""
        for number in list(self._asked):
            self._fail_request(number)

    def _fail_request(self, number: int) -> None:
        self._finish_request({"id": number, "error": encode_error(QuestionExpired("The call was cancelled."))})

    def _finish_request(self, message: Json) -> None:
        future = self._asked.pop(message["id"], None)
        if future is None or not future.set_running_or_notify_cancel():
            return
        if "error" in message:
            future.set_exception(decode_error(message["error"]))
        else:
            future.set_result(message)
