"""RelayedCall: a call in flight on an upstream, whose notifications and questions go to the client of the call."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeGuard

import anyio

from mcp_bridge._contracts.errors import CallError
from mcp_bridge._contracts.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, RpcError
from mcp_bridge._contracts.log_levels import LEVELS
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._protocol.peer.connection import Message, MessageStream
from mcp_bridge._protocol.wire import questions
from mcp_bridge._runtime.exact_json import dump_json
from mcp_bridge._runtime.tasks import TaskOwner
from mcp_bridge._upstream.trust.screening import TextScreen, screen_question, shorten_text

logger = logging.getLogger("mcp_bridge.upstream")

SendFunction = Callable[[Mapping[str, Any]], Awaitable[None]]
"""Sends the notification with these parameters to the client."""
MAX_WAITING = 1024
"""The maximum number of notifications that wait for a slow client. Further ones are dropped."""
MAX_LOG_DATA = 64 * 1024
"""The maximum number of bytes of the data of a log message. Text is truncated by its screening instead."""
MAX_QUESTIONS = 100
"""The maximum number of questions of one call that are open at once. Further ones are rejected."""


class RelayedCall:
    """A call in flight on a server. Its notifications reach the client in order, and before the result.

    The call is also the message stream of its request, so it learns the id of the request.

    Attributes:
        ctx: The client's call.
        request_id: The id of the request to the server, or None before it was sent.
    """

    def __init__(self, ctx: RunningCall, tasks: TaskOwner, stream: MessageStream, server: str) -> None:
        self.ctx = ctx
        self.request_id: Any = None
        self._tasks = tasks
        self._stream = stream
        self._server = server
        self._waiting: deque[tuple[SendFunction, Mapping[str, Any]]] = deque()
        # Set when all notifications have been sent; None while there are none.
        self._delivered: anyio.Event | None = None
        self._open_questions = 0

    @property
    def wants_progress(self) -> bool:
        return "progressToken" in self.ctx.meta

    def send(self, message: Message) -> None:
        """Send a message to the server; the first one is the request."""
        if self.request_id is None:
            self.request_id = message.get("id")
        self._stream.send(message)

    def finish(self, response: Message | None) -> None:
        """Send the response to a question of the server."""
        self._stream.finish(response)

    async def drain(self) -> None:
        """Wait while the server reads more slowly than messages are sent."""
        await self._stream.drain()

    async def close(self) -> None:
        """Do nothing: the connection outlives the call."""

    def report_progress(self, params: Mapping[str, Any]) -> None:
        """Pass a progress notification to the client."""
        self._add_notification(self._send_progress, params)

    def report_log(self, params: Mapping[str, Any]) -> None:
        """Pass a log message to the client."""
        self._add_notification(self._send_log, params)

    async def answer(self, method: str, params: Mapping[str, Any]) -> Any:
        """Ask the client on behalf of the server, and return the result. Raises RpcError."""
        try:
            question = screen_question(questions.read_question(method, params), self._server)
        except ValueError as error:
            raise RpcError(INVALID_PARAMS, shorten_text(str(error))) from error
        if self._open_questions >= MAX_QUESTIONS:
            raise RpcError(INVALID_REQUEST, f"The call has {MAX_QUESTIONS} open questions. Wait for their answers.")
        self._open_questions += 1
        try:
            answers = await self.ctx.put({"": question})
            return questions.render_answer(answers[""])
        except (CallError, ValueError) as error:
            raise RpcError(INVALID_REQUEST, str(error)) from error
        finally:
            self._open_questions -= 1

    async def flush(self) -> None:
        """Wait until all notifications have been sent to the client, so the result can follow."""
        if self._delivered is not None:
            await self._delivered.wait()

    def _add_notification(self, send: SendFunction, params: Mapping[str, Any]) -> None:
        if len(self._waiting) >= MAX_WAITING:
            return
        self._waiting.append((send, params))
        if self._delivered is None:
            self._delivered = anyio.Event()
            self._tasks.spawn(self._deliver)

    async def _deliver(self) -> None:
        try:
            while self._waiting:
                send, params = self._waiting.popleft()
                try:
                    await send(params)
                except (KeyError, TypeError, ValueError) as error:
                    logger.debug("an invalid notification was dropped: %s", error)
        finally:
            event, self._delivered = self._delivered, None
            if event is not None:
                event.set()

    async def _send_progress(self, params: Mapping[str, Any]) -> None:
        progress, total, message = params.get("progress"), params.get("total"), params.get("message")
        if isinstance(message, str):
            message = TextScreen().screen_text(message, "")
        if not _is_number(progress) or not (total is None or _is_number(total)) or not isinstance(message, str | None):
            raise TypeError("progress and total are numbers, and message is a text")
        await self.ctx.report_progress(progress, total, message)

    async def _send_log(self, params: Mapping[str, Any]) -> None:
        level, data, logger_name = params["level"], params.get("data"), params.get("logger")
        if isinstance(data, str):
            data = TextScreen().screen_text(data, "")
        elif len(dump_json(data)) > MAX_LOG_DATA:
            data = "[a log message that is too large]"
        logger_name = shorten_text(logger_name) if isinstance(logger_name, str) else None
        await self.ctx.log(level if level in LEVELS else "info", data, logger_name)


def _is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
