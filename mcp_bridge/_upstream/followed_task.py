"""Follows a task of an upstream until its result (extension io.modelcontextprotocol/tasks).

The call lasts until the task has ended, so every client can call a tool that requires tasks. If the bridge has tasks
too, the call becomes one of them, with its own handle.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio

from mcp_bridge._contracts.jsonrpc import CONNECTION_CLOSED, INTERNAL_ERROR, RpcError
from mcp_bridge._upstream.messages import NOT_RECEIVED
from mcp_bridge._upstream.relayed_call import RelayedCall

MIN_INTERVAL, INTERVAL, MAX_INTERVAL = 0.05, 1.0, 60.0
"""Seconds between two requests for the state of a task: the minimum, the default and the maximum."""
CANCEL_TIMEOUT = 2.0
"""Seconds that the cancellation of a task may take."""

SendRequest = Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Sends a request to the server of the task. Raises RpcError."""


async def follow_task(send: SendRequest, call: RelayedCall, task: Mapping[str, Any]) -> Mapping[str, Any]:
    """Wait for the result of a task, and return it. If the call is cancelled, so is the task. Raises RpcError."""
    task_id = task.get("taskId")
    if not isinstance(task_id, str):
        raise RpcError(INTERNAL_ERROR, "the server returned a task without a taskId")
    follower = TaskFollower(send, call, task_id)
    try:
        return await follower.follow_to_end(task)
    except anyio.get_cancelled_exc_class():
        with anyio.CancelScope(shield=True), anyio.move_on_after(CANCEL_TIMEOUT):
            await follower.cancel_task()
        raise


class TaskFollower:
    """Requests the state of one task until it has ended, and answers its questions."""

    def __init__(self, send: SendRequest, call: RelayedCall, task_id: str) -> None:
        self._send = send
        self._call = call
        self._task_id = task_id
        # The keys of questions that have been answered. The state of a task may still have them for a while.
        self._answered: set[str] = set()
        self._message: Any = None
        self._message_count = 0

    async def follow_to_end(self, task: Mapping[str, Any]) -> Mapping[str, Any]:
        """Wait until the task has ended, and return its result. Raises RpcError."""
        while True:
            message = task.get("statusMessage")
            if isinstance(message, str) and message != self._message:
                # A task has no numbers of progress, so its messages are counted.
                self._message = message
                self._message_count += 1
                self._call.report_progress({"progress": self._message_count, "message": message})
            status = task.get("status")
            result = task.get("result")
            if status == "completed" and isinstance(result, Mapping):
                return result
            if status == "failed":
                raise _read_error(task.get("error"))
            if status == "cancelled":
                raise RpcError(INTERNAL_ERROR, "The server has cancelled the task.")
            if status == "input_required":
                await self._answer_requests(task.get("inputRequests"))
            # The first state of a task has no result, even if it is completed.
            if status != "completed":
                interval = task.get("pollIntervalMs")
                seconds = interval / 1000 if isinstance(interval, int | float) else INTERVAL
                await anyio.sleep(min(max(seconds, MIN_INTERVAL), MAX_INTERVAL))
            task = await self._send_task_request("tasks/get")

    async def cancel_task(self) -> None:
        """Cancel the task on the server, unless that is unreachable."""
        with contextlib.suppress(RpcError):
            await self._send_task_request("tasks/cancel")

    async def _answer_requests(self, requests: Any) -> None:
        """Ask the client all questions of the task together, and send the answers."""
        answers: dict[str, Any] = {}

        async def answer_request(key: str, request: Mapping[str, Any]) -> None:
            answers[key] = await self._call.answer(str(request.get("method")), request.get("params") or {})

        if not isinstance(requests, Mapping):
            return
        try:
            async with anyio.create_task_group() as tasks:
                for key, request in requests.items():
                    if key not in self._answered and isinstance(request, Mapping):
                        tasks.start_soon(answer_request, key, request)
        except ExceptionGroup as errors:
            # Without an answer, the task would never end.
            await self.cancel_task()
            raise errors.exceptions[0] from None
        if answers:
            await self._send_task_request("tasks/update", inputResponses=answers)
            self._answered |= answers.keys()

    async def _send_task_request(self, method: str, **params: Any) -> Mapping[str, Any]:
        try:
            return await self._send(method, {"taskId": self._task_id, **params})
        except RpcError as error:
            if error.code != NOT_RECEIVED:
                raise
            # NOT_RECEIVED would let the caller send the whole call again, although its task has begun.
            raise RpcError(CONNECTION_CLOSED, str(error)) from error


def _read_error(error: Any) -> RpcError:
    fields = error if isinstance(error, Mapping) else {}
    code = fields.get("code")
    if not isinstance(code, int) or code == NOT_RECEIVED:
        code = INTERNAL_ERROR
    return RpcError(code, str(fields.get("message") or "The task has failed."), fields.get("data"))
