"""WorkerLink: a worker's connection to the bridge. A separate thread receives, and any thread may send."""

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
"""Seconds in which the process has to end by itself after the end of the connection."""


class WorkerLink:
    """Sends requests and notifications to the bridge, and receives its messages.

    A separate thread receives, because a tool may block the event loop. A call in a thread still gets the responses for
    which it waits, and a worker does not outlive its bridge.
    """

    def __init__(self, pipes: StdioPipes) -> None:
        self._channel = BlockingLineChannel(pipes.source, pipes.sink)
        self.send_message = self._channel.send
        self.send_line = self._channel.send_line
        self._numbers = itertools.count(1)
        # The requests without a response, by their numbers.
        self._requests: dict[int, Future[Any]] = {}
        # The id of the last call that the bridge has cancelled.
        self._cancelled_call: Any = None

    def listen(self, on_message: Callable[[Json], None], on_end: Callable[[], None]) -> None:
        """Start to receive.

        `on_message` gets all messages but responses. At the end of the connection, `on_end` is called and the process
        ends.
        """
        threading.Thread(
            target=self._receive_messages, args=(on_message, on_end), name="mcp-bridge link", daemon=True
        ).start()

    def read_order(self) -> Json:
        """Wait for the first line, and return it. Raises ValueError if the input ends before it."""
        order: Json | None = self._channel.receive()
        if order is None:
            raise ValueError("the input has ended without an order for this worker")
        return order

    def send_request(self, message: Json) -> Future[Any]:
        """Send a request. The future has the whole response, or raises the error in it."""
        number = next(self._numbers)
        future = self._requests[number] = Future()
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
        """Fail all requests without a response, so threads no longer wait for them."""
        for number in list(self._requests):
            self._fail_request(number)

    def _fail_request(self, number: int) -> None:
        self._finish_request({"id": number, "error": encode_error(QuestionExpired("The call was cancelled."))})

    def _finish_request(self, message: Json) -> None:
        future = self._requests.pop(message["id"], None)
        # The code that has sent the request may have cancelled the future.
        if future is None or not future.set_running_or_notify_cancel():
            return
        if "error" in message:
            future.set_exception(decode_error(message["error"]))
        else:
            future.set_result(message)
