"""A JSON-RPC 2.0 connection. Both sides may send requests at any time, so one class serves clients and servers."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from types import CoroutineType
from typing import Any, Protocol

import anyio

from mcp_bridge.contracts.jsonrpc import CONNECTION_CLOSED, INVALID_REQUEST, REQUEST_TIMEOUT, RpcError
from mcp_bridge.peer.incoming import (
    IncomingRequest,
    Message,
    MessageStream,
    RequestId,
    make_error,
    make_notification,
    make_response,
    report_failure,
)
from mcp_bridge.peer.request_counter import RequestCounter
from mcp_bridge.runtime.tasks import TaskOwner

logger = logging.getLogger("mcp_bridge.peer")

CANCELLED, PROGRESS = "notifications/cancelled", "notifications/progress"
"""The two notifications of MCP that belong to a request in flight rather than to a method."""

ProgressListener = Callable[[Mapping[str, Any]], None]


class Service(Protocol):
    """Serves what the other side sends."""

    def handle_request(self, request: IncomingRequest) -> Any:
        """Return the result at once, or a coroutine for it, which runs in a task. Raises RpcError."""

    def handle_notification(self, method: str, params: Mapping[str, Any]) -> None:
        """Handle a notification. Raises RpcError for an invalid one, which is logged."""


class Connection:
    """One connection. The transport passes each message to `receive`, and calls `close` at the end.

    `stream` carries messages that belong to no request. `counter` counts the requests of the other side in flight.
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

    def has_request(self, request_id: RequestId) -> bool:
        """Whether a request of the other side with this id is in flight."""
        return request_id in self._requests

    def receive(self, message: Message, stream: MessageStream | None = None) -> None:
        """Handle a valid JSON-RPC message. `stream` carries what belongs to a request, if that is not the usual one."""
        if self._is_closed:
            return
        method, request_id = message.get("method"), message.get("id")
        if method is None:
            self._receive_response(message)
        elif request_id is None:
            self._receive_notification(method, message.get("params") or {})
        else:
            request = IncomingRequest(request_id, method, message.get("params"), stream or self._stream)
            self._receive_request(request)

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        stream: MessageStream | None = None,
        timeout: float | None = None,
        on_progress: ProgressListener | None = None,
    ) -> Any:
        """Send a request and return the result. Cancelling the caller, or `timeout` seconds, cancel the request.

        Raises RpcError: the error response, REQUEST_TIMEOUT, or CONNECTION_CLOSED.
        """
        if self._is_closed:
            raise RpcError(CONNECTION_CLOSED, "Connection closed")
        self._last_id += 1
        number, out = self._last_id, stream or self._stream
        pending = self._pending[number] = PendingRequest(on_progress)
        if on_progress is not None:
            params = {**(params or {}), "_meta": {**(params or {}).get("_meta", {}), "progressToken": number}}
        out.send({"jsonrpc": "2.0", "id": number, "method": method, **({"params": params} if params else {})})
        try:
            with anyio.move_on_after(timeout):
                return await pending.wait()
        except anyio.get_cancelled_exc_class():
            out.send(make_notification(CANCELLED, {"requestId": number, "reason": "the request was cancelled"}))
            raise
        finally:
            self._pending.pop(number, None)
        out.send(make_notification(CANCELLED, {"requestId": number, "reason": "the request timed out"}))
        raise RpcError(REQUEST_TIMEOUT, f"{method}: no response within {timeout:g} seconds")

    def notify(
        self, method: str, params: Mapping[str, Any] | None = None, *, stream: MessageStream | None = None
    ) -> None:
        """Send a notification."""
        if not self._is_closed:
            (stream or self._stream).send(make_notification(method, params))

    def close(self) -> None:
        """Handle the end of the connection: cancel the requests of the other side, and fail those of this one."""
        self._is_closed = True
        for request in list(self._requests.values()):
            request.cancel()
        for pending in self._pending.values():
            pending.settle(error=RpcError(CONNECTION_CLOSED, "Connection closed"))

    def _receive_request(self, request: IncomingRequest) -> None:
        if request.id in self._requests:
            problem = RpcError(INVALID_REQUEST, "Invalid Request: a request with this id is in flight")
            request.stream.send(make_error(request.id, problem))
            return
        try:
            outcome = self._service.handle_request(request)
        except RpcError as error:
            request.stream.finish(make_error(request.id, error))
            return
        except Exception as error:
            request.stream.finish(make_error(request.id, report_failure(request.method, error)))
            return
        if type(outcome) is not CoroutineType:
            request.stream.finish(make_response(request.id, outcome))
            return
        self._requests[request.id] = request
        self._counter.add_request()
        self._tasks.spawn(self._serve, request, outcome)

    async def _serve(self, request: IncomingRequest, outcome: Awaitable[Any]) -> None:
        response: Message | None = None
        try:
            response = await request.run(outcome)
        finally:
            if self._requests.get(request.id) is request:
                del self._requests[request.id]
            request.stream.finish(response)
            self._counter.remove_request()

    def _receive_notification(self, method: str, params: Mapping[str, Any]) -> None:
        if method == CANCELLED:
            request = self._requests.get(_get_key(params, "requestId"))
            if request is not None:
                request.cancel()
        elif method == PROGRESS and (pending := self._pending.get(_get_key(params, "progressToken"))) is not None:
            pending.report_progress(params)
        else:
            try:
                self._service.handle_notification(method, params)
            except RpcError as error:
                logger.warning("%s was dropped: %s", method, error)
            except Exception as error:
                report_failure(method, error)

    def _receive_response(self, message: Message) -> None:
        pending = self._pending.get(_get_key(message, "id"))
        if pending is None:
            logger.debug("a response to no request of this side was dropped")
        elif (error := message.get("error")) is not None:
            pending.settle(error=RpcError(error.get("code"), error.get("message"), error.get("data")))
        else:
            pending.settle(message.get("result"))


class PendingRequest:
    """A request of this side that waits for its response."""

    def __init__(self, on_progress: ProgressListener | None) -> None:
        self._on_progress = on_progress
        self._settled = anyio.Event()
        self._result: Any = None
        self._error: RpcError | None = None

    async def wait(self) -> Any:
        await self._settled.wait()
        if self._error is not None:
            raise self._error
        return self._result

    def settle(self, result: Any = None, *, error: RpcError | None = None) -> None:
        self._result, self._error = result, error
        self._settled.set()

    def report_progress(self, params: Mapping[str, Any]) -> None:
        if self._on_progress is not None:
            self._on_progress(params)


def _get_key(params: Mapping[str, Any], name: str) -> Any:
    """Return an id that can be looked up; one that is neither text nor an integer matches no request."""
    key = params.get(name)
    return key if isinstance(key, str | int) and not isinstance(key, bool) else object()
