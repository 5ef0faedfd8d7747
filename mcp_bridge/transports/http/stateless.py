"""Requests of the stateless era: one POST each, with a response in JSON or as events (MCP 2026-07-28, transports)."""

from __future__ import annotations

import asyncio
from types import CoroutineType
from typing import Any

from mcp_bridge.contracts.jsonrpc import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    RpcError,
)
from mcp_bridge.peer.incoming import IncomingRequest, Message, make_error, make_response, report_failure
from mcp_bridge.server.endpoint import Endpoint
from mcp_bridge.server.requests import check_version
from mcp_bridge.transports.http.admission import Admission
from mcp_bridge.transports.http.event_stream import EventStream, format_event
from mcp_bridge.transports.http.header_checks import HeaderChecks
from mcp_bridge.transports.http.request import HttpRequest, make_rejection
from mcp_bridge.transports.jsonrpc_lines import dump_message

QUICK = 0.02
"""Seconds after which a task watches whether the client disconnects. Most calls end before, and do not pay for it."""
STATUSES = {
    **dict.fromkeys((PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS, HEADER_MISMATCH), 400),
    **dict.fromkeys((MISSING_CAPABILITY, UNSUPPORTED_VERSION), 400),
    METHOD_NOT_FOUND: 404,
}
"""HTTP statuses of error responses; others have 200."""
LISTEN = "subscriptions/listen"


class StatelessEndpoint:
    """Serves POSTs that need no session."""

    def __init__(self, endpoint: Endpoint, admission: Admission) -> None:
        self._endpoint = endpoint
        self._admission = admission
        self._headers = HeaderChecks(endpoint)

    async def serve(self, request: HttpRequest, version: str) -> None:
        """Serve a request of this protocol version. Raises HttpRejection."""
        request.check_method("POST")
        request.check_content_type()
        request.check_accept("application/json", "text/event-stream")
        message = await self._admission.read_message(request)
        method = message.get("method")
        if method is None:
            raise make_rejection(400, "Invalid Request: a response belongs to no request of this server")
        if "id" not in message:
            await self._accept_notification(request, version)
        elif method == LISTEN:  # the shutdown ends these streams, so it does not wait for them
            await self._serve_request(request, message, version)
        else:
            ledger = self._admission.ledger
            ledger.add_request()
            try:
                await self._serve_request(request, message, version)
            finally:
                ledger.remove_request()

    async def _accept_notification(self, request: HttpRequest, version: str) -> None:
        """Accept and drop a notification: a client cancels a request by closing the connection."""
        try:
            check_version(version)
        except RpcError as error:
            await request.respond(400, dump_message(make_error(None, error)))
        else:
            await request.respond(202)

    async def _serve_request(self, request: HttpRequest, message: Message, version: str) -> None:
        stream = StatelessStream(request)
        incoming = IncomingRequest(
            message["id"], message["method"], message.get("params"), stream, principal=request.read_principal()
        )
        try:
            self._headers.check_headers(request, version, incoming.method, incoming.params)
            outcome = self._endpoint.handle_stateless(incoming, version=version)
        except RpcError as error:
            response: Message | None = make_error(incoming.id, error)
        except Exception as error:
            response = make_error(incoming.id, report_failure(incoming.method, error))
        else:
            if type(outcome) is CoroutineType:
                response = await stream.run(incoming, outcome)
            else:
                response = make_response(incoming.id, outcome)
        if response is None:  # the client has disconnected
            return
        if stream.events.is_started:
            await stream.events.finish(format_event(dump_message(response)))
        else:
            status = STATUSES.get(response["error"]["code"], 200) if "error" in response else 200
            await request.respond(status, dump_message(response))


class StatelessStream:
    """The message stream of one request. The response is JSON unless something is sent before it."""

    __slots__ = ("_attendant", "events")

    def __init__(self, request: HttpRequest) -> None:
        self.events = EventStream(request, is_open=True)
        self._attendant: asyncio.Task[None] | None = None

    async def run(self, incoming: IncomingRequest, outcome: Any) -> Message | None:
        """Run the request in this task. It is cancelled when the client disconnects (basic/utilities/cancellation)."""
        timer = asyncio.get_running_loop().call_later(QUICK, self._attend_soon, incoming)
        try:
            return await incoming.run(outcome)
        finally:
            timer.cancel()
            if self._attendant is not None:
                self._attendant.cancel()

    def send(self, message: Message) -> None:
        if line := dump_message(message):
            self.events.put(format_event(line))

    async def drain(self) -> None:
        await self.events.drain()

    def finish(self, response: Message | None) -> None:
        """Do nothing: the task that runs the request sends the response."""

    async def close(self) -> None:
        """Do nothing: these streams cannot be resumed."""

    def _attend_soon(self, incoming: IncomingRequest) -> None:
        self._attendant = asyncio.get_running_loop().create_task(self._attend(incoming))

    async def _attend(self, incoming: IncomingRequest) -> None:
        await self.events.attend()
        incoming.cancel()
