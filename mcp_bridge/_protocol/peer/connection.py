"""A JSON-RPC 2.0 connection. Both sides may send requests at any time, so one class serves clients and servers.

A request of the other side (`IncomingRequest`) gets at most one response. If the service returns the result itself,
`receive` sends the response. Otherwise the service returns a coroutine:

1. `receive` registers the request under its id and spawns `_serve` as a task.
2. `IncomingRequest.run` awaits the coroutine in a block that `cancel` can interrupt, and builds the response.
3. `_serve` removes the request, and sends the response unless the other side has cancelled the request. The server may
   also cancel a request, with an error as its response. If the code of the request then does not end, `abandon` sends
   the error early, and the later result is dropped.

For a request of this side (`PendingRequest`), `request` waits until `receive` gets the response, the timeout passes or
`close` ends the connection. A notification reports timeouts and cancellations to the other side.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from types import CoroutineType
from typing import Any, Protocol

import anyio

from mcp_bridge._contracts.jsonrpc import CONNECTION_CLOSED, INTERNAL_ERROR, INVALID_REQUEST, REQUEST_TIMEOUT, RpcError
from mcp_bridge._contracts.running_call import Hold
from mcp_bridge._runtime.cancellation import CancellableBlock, is_being_cancelled
from mcp_bridge._runtime.limiter import Slot
from mcp_bridge._runtime.tasks import TaskOwner

logger = logging.getLogger("mcp_bridge.peer")

CANCELLED, PROGRESS = "notifications/cancelled", "notifications/progress"
"""The two notifications of MCP about a request in flight. The connection handles them instead of the service."""

RequestId = str | int
Message = dict[str, Any]
"""A JSON-RPC message as a JSON-ready dict."""
ProgressListener = Callable[[Mapping[str, Any]], None]
"""Receives the params of each progress notification."""


class MessageStream(Protocol):
    """Carries messages to the other side, in the order of `send`.

    By default, a stream never waits and cannot be resumed.
    """

    __slots__ = ()

    def send(self, message: Message) -> None:
        """Queue a message. Never raises: after the end of the connection, messages are dropped."""

    async def drain(self) -> None:
        """Wait while the other side reads more slowly than messages are queued."""
        return

    def finish(self, response: Message | None) -> None:
        """Send the response of the stream's request, after all other messages. None means a cancelled request."""
        if response is not None:
            self.send(response)

    async def close(self) -> None:
        """Close the connection below the stream if the other side can resume the stream."""
        return


class Service(Protocol):
    """Serves the requests and notifications of the other side."""

    def handle_request(self, request: IncomingRequest) -> Any:
        """Return the result, or a coroutine for the result. The coroutine runs in a task. Raises RpcError."""

    def handle_notification(self, method: str, params: Mapping[str, Any]) -> None:
        """Handle a notification. Raises RpcError for an invalid one; the connection logs the error."""


class RequestCounter:
    """Counts the requests in flight of any number of connections, and lets the shutdown wait for them."""

    def __init__(self) -> None:
        self._open = 0
        # Only a waiting task makes the event, so that requests do not pay for it.
        self._change: anyio.Event | None = None
        self.is_urgent = False

    def add_request(self) -> None:
        """Count a request as in flight."""
        self._open += 1

    def remove_request(self, number: int = 1) -> None:
        """Count requests as ended, with or without a response."""
        self._open -= number
        if not self._open and self._change is not None:
            self._change.set()

    def shorten_waits(self) -> None:
        """Shorten all waits, after a second signal or after the client has disconnected."""
        self.is_urgent = True
        if self._change is not None:
            self._change.set()

    async def wait_until_idle(self, timeout: float, urgent_timeout: float = 0.0) -> bool:
        """Wait until no request is in flight, and return True, or False after the timeout.

        After `shorten_waits`, `urgent_timeout` is the timeout. Both are seconds from the beginning of the wait.
        """
        start = anyio.current_time()
        while self._open:
            if self.is_urgent:
                timeout = urgent_timeout
            remaining = start + timeout - anyio.current_time()
            if remaining <= 0:
                break
            if self._change is None or self._change.is_set():
                self._change = anyio.Event()
            with anyio.move_on_after(remaining):
                await self._change.wait()
        return not self._open


class PeerConnection:
    """One connection. The transport passes each message to `receive`, and calls `close` at the end.

    Args:
        service: Serves the requests and notifications of the other side.
        stream: Carries all messages outside of requests with their own stream.
        tasks: Owns the tasks of requests.
        counter: Counts the requests of the other side in flight, until the connection is closed.
    """

    def __init__(
        self, service: Service, stream: MessageStream, tasks: TaskOwner, counter: RequestCounter | None = None
    ) -> None:
        self._service = service
        self._stream = stream
        self._tasks = tasks
        self._counter = counter or RequestCounter()
        self._requests: dict[RequestId, IncomingRequest] = {}
        self._pending: dict[RequestId, PendingRequest] = {}
        self._last_id = 0
        self._is_closed = False

    def get_request(self, request_id: RequestId) -> IncomingRequest | None:
        """Return the request of the other side in flight under this id, or None."""
        return self._requests.get(request_id)

    def receive(self, message: Message, stream: MessageStream | None = None) -> bool:
        """Handle a valid JSON-RPC message. A request can have its own `stream` for its response and notifications.

        Returns False if a response belongs to no request of this side and is dropped.
        """
        if self._is_closed:
            return True
        method, request_id = message.get("method"), message.get("id")
        if method is None:
            return self._receive_response(message)
        if request_id is None:
            self._receive_notification(method, message.get("params") or {})
            return True
        request = IncomingRequest(request_id, method, message.get("params"), stream or self._stream)
        if request_id in self._requests:
            problem = RpcError(INVALID_REQUEST, "Invalid Request: a request with this id is in flight")
            request.stream.finish(make_error(request_id, problem))
            return True
        try:
            outcome = self._service.handle_request(request)
        except RpcError as error:
            response = make_error(request_id, error)
        except BaseException as error:
            # A SystemExit of the service must not end the server.
            response = make_error(request_id, report_failure(method, error))
        else:
            # This is the coroutine of an `async def`, and costs less than `inspect.iscoroutine`.
            if type(outcome) is CoroutineType:
                self._requests[request_id] = request
                self._counter.add_request()
                self._tasks.spawn(self._serve, request, outcome, cancel=request.cancel)
                return True
            response = {"jsonrpc": "2.0", "id": request_id, "result": outcome}
        request.is_done = True
        request.stream.finish(response)
        return True

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        stream: MessageStream | None = None,
        timeout: float | None = None,
        on_progress: ProgressListener | None = None,
    ) -> Any:
        """Send a request and return the result. The request is cancelled with its caller, and after `timeout` seconds.

        Raises RpcError: the error response, REQUEST_TIMEOUT, or CONNECTION_CLOSED.
        """
        if self._is_closed:
            raise RpcError(CONNECTION_CLOSED, "Connection closed")
        self._last_id += 1
        number = self._last_id
        stream = stream or self._stream
        if on_progress is not None:
            params = dict(params or {})
            params["_meta"] = {**(params.get("_meta") or {}), "progressToken": number}
        message = {"jsonrpc": "2.0", "id": number, "method": method}
        if params:
            message["params"] = params
        pending = self._pending[number] = PendingRequest(on_progress)
        try:
            stream.send(message)
            if timeout is None:
                # A cancel scope would cost a fifth of the request.
                await pending.wait_until_settled()
            else:
                with anyio.move_on_after(timeout):
                    await pending.wait_until_settled()
            if pending.error is not None:
                raise pending.error
            if pending.is_settled:
                return pending.result
            self._send_cancellation(number, stream, "the request timed out")
        except anyio.get_cancelled_exc_class():
            self._send_cancellation(number, stream, "the request was cancelled")
            raise
        finally:
            self._pending.pop(number, None)
        raise RpcError(REQUEST_TIMEOUT, f"{method}: no response within {timeout:g} seconds")

    def notify(
        self, method: str, params: Mapping[str, Any] | None = None, *, stream: MessageStream | None = None
    ) -> None:
        """Send a notification, unless the connection is closed."""
        if not self._is_closed:
            (stream or self._stream).send(make_notification(method, params))

    async def drain(self) -> None:
        """Wait while the other side reads the messages outside of requests more slowly than they are sent."""
        await self._stream.drain()

    def close(self) -> None:
        """Handle the end of the connection: cancel the requests of the other side, and fail those of this side."""
        if not self._is_closed:
            self._is_closed = True
            # The shutdown does not wait for requests whose response can no longer be sent.
            self._counter.remove_request(len(self._requests))
        for request in list(self._requests.values()):
            request.cancel()
        while self._pending:
            _, pending = self._pending.popitem()
            pending.settle(error=RpcError(CONNECTION_CLOSED, "Connection closed"))

    def _send_cancellation(self, number: int, stream: MessageStream, reason: str) -> None:
        """Cancel a request of this side, unless it has a response or the connection is closed."""
        if number in self._pending:
            stream.send(make_notification(CANCELLED, {"requestId": number, "reason": reason}))

    async def _serve(self, request: IncomingRequest, outcome: Coroutine[Any, Any, Any]) -> None:
        """Run the coroutine of a request as a task, and send the response."""
        response: Message | None = None
        try:
            response = await request.run(outcome)
        except anyio.get_cancelled_exc_class() as error:
            if request.is_cancelled or is_being_cancelled(error):
                raise
            # Neither `request.cancel` nor the owner of the task has cancelled it, so the code of the request has
            # cancelled its own task, which is a failure.
            response = make_error(request.id, report_failure(request.method, error))
        finally:
            if self._requests.get(request.id) is request:
                del self._requests[request.id]
            if not request.is_abandoned:
                request.stream.finish(response)
            if not self._is_closed:
                self._counter.remove_request()

    def _receive_notification(self, method: str, params: Mapping[str, Any]) -> None:
        """Handle a notification about a request, or pass another one to the service. Never raises."""
        try:
            if method == CANCELLED:
                request = self._requests.get(_get_key(params, "requestId"))
                if request is not None:
                    request.cancel()
            elif method == PROGRESS:
                pending = self._pending.get(self._get_own_key(params, "progressToken"))
                if pending is not None and pending.on_progress is not None:
                    pending.on_progress(params)
            else:
                self._service.handle_notification(method, params)
        except RpcError as error:
            logger.warning("%s was dropped: %s", method, error)
        except BaseException as error:
            report_failure(method, error)

    def _get_own_key(self, params: Mapping[str, Any], name: str) -> Any:
        """Return an id of this side. Like the official SDKs, accept "1" for 1, because small servers return text."""
        key = _get_key(params, name)
        # The other side chooses the text, so its length is limited before it is parsed.
        if isinstance(key, str) and key not in self._pending and len(key) < 16 and key.isdecimal():
            return int(key)
        return key

    def _receive_response(self, message: Message) -> bool:
        """Settle the pending request of a response. Return whether there is one."""
        pending = self._pending.pop(self._get_own_key(message, "id"), None)
        if pending is None:
            logger.debug("a response to no request of this side was dropped")
        elif message.get("error") is not None:
            pending.settle(error=_read_error(message["error"]))
        elif "result" not in message:
            pending.settle(error=RpcError(INTERNAL_ERROR, "The response has no result"))
        else:
            pending.settle(message["result"])
        return pending is not None


class PendingRequest:
    """A request of this side without a response yet."""

    def __init__(self, on_progress: ProgressListener | None) -> None:
        self.on_progress = on_progress
        self.result: Any = None
        self.error: RpcError | None = None
        self.is_settled = False
        self._future: asyncio.Future[None] | None = None
        try:
            # A future costs half as much as an event of anyio.
            self._future = asyncio.get_running_loop().create_future()
        except RuntimeError:
            # Trio has no loop of asyncio.
            self._event = anyio.Event()

    def wait_until_settled(self) -> Awaitable[None]:
        """Return an awaitable that ends with `settle`."""
        if self._future is None:
            return self._event.wait()
        return self._future

    def settle(self, result: Any = None, *, error: RpcError | None = None) -> None:
        """Set the result or the error, and wake the caller of `request`."""
        self.result = result
        self.error = error
        self.is_settled = True
        if self._future is None:
            self._event.set()
        # The future is done already if the waiting task was cancelled.
        elif not self._future.done():
            self._future.set_result(None)


def _read_error(error: Any) -> RpcError:
    """Return the error of a response. A malformed one gets a default code or message."""
    members = error if isinstance(error, dict) else {}
    code, message = members.get("code"), members.get("message")
    if type(code) is not int:
        code = INTERNAL_ERROR
    if not isinstance(message, str) or not message:
        message = "The error response has no message"
    return RpcError(code, message, members.get("data"))


def _get_key(params: Mapping[str, Any], name: str) -> Any:
    """Return an id for a lookup. An id must be text or an integer; any other value matches no request."""
    key = params.get(name)
    if isinstance(key, str | int) and not isinstance(key, bool):
        return key
    return object()


class IncomingRequest:
    """A request of the other side.

    Attributes:
        stream: Carries the response, the notifications about the request, and requests of this side during it.
        principal: The authenticated caller, or None.
        client: The key for the quotas of the client; None if the server has only one client.
        transport: How the client is connected (see `ClientInfo.transport`).
        holds: The slots and deadlines of the call (see `RunningCall.holds`).
        is_cancelled: Whether `cancel` was called.
        is_done: Whether the result is known or the request is cancelled. Only the response may follow then.
        is_abandoned: Whether the response was sent while the code of the request still runs.
    """

    __slots__ = (
        "_block", "_error", "client", "holds", "id", "is_abandoned", "is_cancelled", "is_done", "method", "params",
        "principal", "stream", "transport",
    )  # fmt: skip

    def __init__(
        self,
        request_id: RequestId,
        method: str,
        params: Mapping[str, Any] | None,
        stream: MessageStream,
        *,
        principal: str | None = None,
        client: str | None = None,
        transport: str = "",
    ) -> None:
        self.id = request_id
        self.method = method
        self.params: Mapping[str, Any] = {} if params is None else params
        self.stream = stream
        self.principal = principal
        self.client = client
        self.transport = transport
        self.holds: Sequence[Hold] = ()
        self.is_cancelled = self.is_done = self.is_abandoned = False
        self._block: CancellableBlock | None = None
        self._error: RpcError | None = None

    async def run(self, outcome: Coroutine[Any, Any, Any]) -> Message | None:
        """Await the result. Return the response, or None if the request was cancelled without an error."""
        response: Message | None = None
        if self.is_cancelled:
            # Closing a coroutine that has not started avoids Python's warning about it.
            outcome.close()
        else:
            with CancellableBlock() as self._block:
                try:
                    response = {"jsonrpc": "2.0", "id": self.id, "result": await outcome}
                except RpcError as error:
                    response = make_error(self.id, error)
                except BaseException as error:
                    # A cancellation passes if it comes from `cancel`, from a scope around the request, or from
                    # `Task.cancel` of asyncio. Otherwise, the code has failed, even if it has raised a cancellation.
                    if self.is_cancelled or is_being_cancelled(error) or self._block.is_interrupted(error):
                        raise
                    response = make_error(self.id, report_failure(self.method, error))
        self.is_done = True
        if not self.is_cancelled:
            return response
        if self._error is None:
            return None
        return make_error(self.id, self._error)

    def lend_slots(self) -> None:
        """Lend the slots of the call to other calls while no client reads its stream (see `Slot.lend`)."""
        for hold in self.holds:
            if isinstance(hold, Slot):
                hold.lend()

    def reclaim_slots(self) -> None:
        """Take back the slots of `lend_slots`."""
        for hold in self.holds:
            if isinstance(hold, Slot):
                hold.reclaim()

    def cancel(self, error: RpcError | None = None) -> None:
        """Cancel the request. The error is its response. Without an error, it has no response."""
        if not self.is_cancelled:
            self.is_cancelled = self.is_done = True
            self._error = error
        if self._block is not None:
            self._block.cancel()

    def abandon(self) -> None:
        """Send the error of a cancelled request while its code still runs. The later result is dropped."""
        if self._error is not None and not self.is_abandoned:
            self.is_abandoned = True
            self.stream.finish(make_error(self.id, self._error))


def report_failure(method: str, error: BaseException) -> RpcError:
    """Log an unexpected error, and return an error with only a reference to the log for the other side."""
    reference = os.urandom(6).hex()
    logger.error("%s failed, reference %s", method, reference, exc_info=error)
    return RpcError(INTERNAL_ERROR, f"{method} failed with an internal error (reference {reference}).")


def make_error(request_id: RequestId | None, error: RpcError) -> Message:
    return {"jsonrpc": "2.0", "id": request_id, "error": error.to_json()}


def make_notification(method: str, params: Mapping[str, Any] | None) -> Message:
    message: Message = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message["params"] = params
    return message
