"""Admission: counts the requests of an app, parses their messages, and rejects new ones while the server shuts down."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from mcp_bridge._contracts.jsonrpc import CONNECTION_CLOSED, RpcError
from mcp_bridge._protocol.peer.connection import Message, RequestCounter, RequestId, make_error
from mcp_bridge._protocol.peer.json_lines import dump_message, parse_message
from mcp_bridge._runtime.tasks import Notifier, TaskOwner
from mcp_bridge._transports.http.request import HttpRejection, HttpRequest
from mcp_bridge._transports.shutdown import SHUTDOWN_MESSAGE, is_new_request

RETRY_HEADERS = ((b"retry-after", b"1"),)
"""After this second, another instance, or this server after a restart, can handle the request."""


class Admission:
    """The state of an app: whether it runs or shuts down, and its requests in flight.

    During the shutdown, only messages of calls in flight are admitted: answers to questions, notifications, the next
    round of a call with questions, resumed streams, and the end of sessions.

    Args:
        body: The maximum number of bytes of a request's body.

    Attributes:
        counter: Counts the requests for which the shutdown waits. It ends listen streams, so they are not counted.
        tasks: Runs requests that outlive their connections. The lifespan of the app sets it.
        is_running: Whether the lifespan of the app has begun.
        is_ending: Whether new requests are rejected.
    """

    tasks: TaskOwner

    def __init__(self, *, body: int) -> None:
        self.counter = RequestCounter()
        self.is_running = False
        self.is_ending = False
        self._body = body
        self._exchanges: dict[asyncio.Task[Any], HttpRequest] = {}
        self._last_removal = Notifier()

    def check_ending(self) -> None:
        """Raise HttpRejection while the server shuts down."""
        if self.is_ending:
            raise make_shutdown_rejection(None)

    async def read_message(self, request: HttpRequest, *, is_connected: bool = False) -> Message:
        """Return the message in the body. Raises HttpRejection and ClientDisconnected.

        Messages of clients with a stream are always admitted, because the official client closes its stream, with all
        calls in flight, after the first rejected message.
        """
        # For an invalid message, this is the error response.
        message = parse_message(await request.read_body(self._body))
        if isinstance(message, bytes):
            raise HttpRejection(400, message)
        if self.is_ending and not is_connected and is_new_request(message):
            raise make_shutdown_rejection(message["id"])
        return message

    def add_exchange(self, request: HttpRequest) -> asyncio.Task[Any]:
        """Add the request of this task, so that `abort` and `wait_until_empty` include it.

        Unlike `counter`, this includes listen streams.
        """
        task = asyncio.current_task()
        assert task is not None
        self._exchanges[task] = request
        return task

    def remove_exchange(self, task: asyncio.Task[Any]) -> None:
        self._exchanges.pop(task, None)
        if not self._exchanges:
            self._last_removal.notify()

    def take_abortion(self, task: asyncio.Task[Any]) -> HttpRejection | None:
        """Return the rejection for a task that `abort` has cancelled, and undo the cancellation.

        Return None if something else has cancelled the task.
        """
        abortion = self._exchanges[task].abortion
        if abortion is not None:
            task.uncancel()
        return abortion

    async def wait_until_empty(self) -> None:
        while self._exchanges:
            await self._last_removal.wait_for_notification()

    def abort(self, rejection: HttpRejection, is_chosen: Callable[[HttpRequest], bool]) -> None:
        """Cancel the tasks of the chosen requests. Their responses are the rejection, or end if they have begun."""
        for task, request in self._exchanges.items():
            if is_chosen(request):
                request.abortion = rejection
                task.cancel()


def make_shutdown_rejection(request_id: RequestId | None) -> HttpRejection:
    error = RpcError(CONNECTION_CLOSED, SHUTDOWN_MESSAGE)
    return HttpRejection(503, dump_message(make_error(request_id, error)), RETRY_HEADERS)
