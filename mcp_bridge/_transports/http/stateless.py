"""StatelessEndpoint: requests of the stateless era (MCP 2026-07-28, basic/transports).

Each request is one POST. Its response is JSON, or an event stream if the server sends messages before it. A client
cancels a request by closing the connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from types import CoroutineType
from typing import Any

from mcp_bridge._contracts.jsonrpc import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    RpcError,
)
from mcp_bridge._protocol.peer.connection import IncomingRequest, Message, MessageStream, make_error, report_failure
from mcp_bridge._protocol.peer.json_lines import dump_message
from mcp_bridge._runtime.event_loop import OWN_TASK
from mcp_bridge._server.endpoint import Endpoint
from mcp_bridge._server.requests import check_version
from mcp_bridge._transports.http.admission import Admission
from mcp_bridge._transports.http.event_stream import EventStream, format_event
from mcp_bridge._transports.http.header_checks import HeaderChecks
from mcp_bridge._transports.http.request import HttpRejection, HttpRequest, make_client_key, make_rejection

WATCH_DELAY = 0.02
"""Seconds after which a task watches whether the client disconnects. Most requests end earlier, and need no task."""
STATUSES = {
    **dict.fromkeys((PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS, HEADER_MISMATCH), 400),
    **dict.fromkeys((MISSING_CAPABILITY, UNSUPPORTED_VERSION), 400),
    METHOD_NOT_FOUND: 404,
}
"""The HTTP statuses of error responses by their codes. Others have 200."""
LISTEN = "subscriptions/listen"
"""The method of a stream of changes, which stays open until the client or the shutdown ends it."""


class StatelessEndpoint:
    """Serves the requests of the stateless era."""

    def __init__(self, endpoint: Endpoint, admission: Admission) -> None:
        self._endpoint = endpoint
        self._admission = admission
        self._headers = HeaderChecks(endpoint)
        self._slow = SlowRequests()

    async def serve(self, request: HttpRequest, version: str) -> None:
        """Serve a request of this protocol version. Raises HttpRejection."""
        if request.method != "POST":
            _check_version(version)
        request.check_message()
        message = await self._admission.read_message(request)
        method = message.get("method")
        if method is None:
            raise make_rejection(400, "Invalid Request: a response belongs to no request of this server")
        if "id" not in message:
            # A notification is dropped. A client cancels a request by closing the connection.
            _check_version(version)
            await request.respond(202)
            return
        stream = StatelessStream(request)
        counter = self._admission.counter
        principal = request.read_principal()
        incoming = IncomingRequest(
            message["id"],
            method,
            message.get("params"),
            stream,
            principal=principal,
            client=make_client_key(principal),
            transport="http",
        )
        # The shutdown ends streams of changes, so it does not wait for them.
        is_counted = method != LISTEN
        if is_counted:
            counter.add_request()
        try:
            response = self._handle_request(request, incoming, version)
            # Only a request that takes time is a coroutine. It is cancelled when the client disconnects
            # (basic/utilities/cancellation).
            if type(response) is CoroutineType:
                self._slow.add_request(stream, incoming)
                try:
                    response = await incoming.run(response)
                finally:
                    self._slow.remove_request(stream)
            # Without a response, the client has disconnected.
            if response is not None and not incoming.is_abandoned:
                await stream.respond(response)
        finally:
            if is_counted:
                counter.remove_request()

    def _handle_request(self, request: HttpRequest, incoming: IncomingRequest, version: str) -> Any:
        """Return the response, or a coroutine for `IncomingRequest.run`."""
        try:
            self._headers.check_headers(request, version, incoming.method, incoming.params)
            outcome = self._endpoint.handle_stateless(incoming, version=version)
        except RpcError as error:
            return make_error(incoming.id, error)
        except Exception as error:
            return make_error(incoming.id, report_failure(incoming.method, error))
        if type(outcome) is CoroutineType:
            return outcome
        return {"jsonrpc": "2.0", "id": incoming.id, "result": outcome}


def _check_version(version: str) -> None:
    """Raise HttpRejection for a handshake version, or an unknown one."""
    try:
        check_version(version)
    except RpcError as error:
        raise HttpRejection(400, dump_message(make_error(None, error))) from None


class SlowRequests:
    """Starts to watch the clients of requests after WATCH_DELAY.

    One timer serves all requests, because a timer for each request would cost 20 microseconds. At each tick, the
    requests that had begun before the last tick are watched, and the newer ones become old.
    """

    def __init__(self) -> None:
        # The requests since the last tick, and those before.
        self._new_requests: dict[StatelessStream, IncomingRequest] = {}
        self._old_requests: dict[StatelessStream, IncomingRequest] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add_request(self, stream: StatelessStream, incoming: IncomingRequest) -> None:
        self._new_requests[stream] = incoming
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WATCH_DELAY, self._attend_slow)

    def remove_request(self, stream: StatelessStream) -> None:
        if self._new_requests.pop(stream, None) is None:
            self._old_requests.pop(stream, None)
        if stream.attendant is not None:
            stream.attendant.cancel()

    def _attend_slow(self) -> None:
        loop = asyncio.get_running_loop()
        for stream, incoming in self._old_requests.items():
            stream.attendant = loop.create_task(stream.attend(incoming), name=OWN_TASK)
        self._old_requests = self._new_requests
        self._new_requests = {}
        self._timer = None
        if self._old_requests:
            self._timer = loop.call_later(WATCH_DELAY, self._attend_slow)


class StatelessStream(MessageStream):
    """The message stream of one request. The response is JSON unless something is sent before it."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = request
        self._events: EventStream | None = None
        self.attendant: asyncio.Task[None] | None = None

    @property
    def events(self) -> EventStream:
        if self._events is None:
            self._events = EventStream(self._request, is_open=True)
        return self._events

    def respond(self, response: Message) -> Awaitable[None]:
        line = dump_message(response)
        if self._events is not None and self._events.is_started:
            return self._events.finish(format_event(line))
        status = 200
        if "error" in response:
            status = STATUSES.get(response["error"]["code"], 200)
        return self._request.respond(status, line)

    async def attend(self, incoming: IncomingRequest) -> None:
        """Keep the response alive, and cancel the request when the client disconnects."""
        await self.events.attend()
        incoming.cancel()

    def send(self, message: Message) -> None:
        line = dump_message(message)
        # `dump_message` drops a request or notification that JSON cannot express.
        if line:
            self.events.put(format_event(line))

    async def drain(self) -> None:
        await self.events.drain()

    def finish(self, response: Message | None) -> None:
        """Send the response of an abandoned request. The task of the request sends all other responses."""
        if response is not None:
            self._responder = asyncio.ensure_future(self.respond(response))
