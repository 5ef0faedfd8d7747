"""Requests of the other side. Each has at most one response, and can be cancelled until then."""

from __future__ import annotations

import logging
import os
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Protocol

from mcp_bridge._contracts.hold import Hold
from mcp_bridge._contracts.jsonrpc import INTERNAL_ERROR, RpcError
from mcp_bridge._runtime.cancellation import CancellableBlock
from mcp_bridge._runtime.event_loop import is_being_cancelled
from mcp_bridge._runtime.limiter import Slot

logger = logging.getLogger("mcp_bridge.peer")

RequestId = str | int
Message = dict[str, Any]
"""A JSON-RPC message as a dict that can be written as JSON."""


class MessageStream(Protocol):
    """Carries messages to the other side, in the order in which they are sent."""

    def send(self, message: Message) -> None:
        """Queue a message. Never raises: a message that cannot arrive any more is dropped."""

    async def drain(self) -> None:
        """Wait while the other side reads more slowly than messages are queued."""

    def finish(self, response: Message | None) -> None:
        """Send the response of the stream's request, after everything else; None if the request was cancelled."""

    async def close(self) -> None:
        """Close the connection that carries the stream, if the other side can resume it; else do nothing."""


class IncomingRequest:
    """One request. `stream` carries what belongs to it: its response, notifications and requests in return.

    Attributes:
        principal: The authenticated caller, or None.
        client: Whose quotas the request counts against; None if the server has only one client.
        transport: How the client is connected (see `ClientInfo.transport`).
        holds: What the call of the request holds (see `CallContext.holds`).
        is_done: Whether the result is known or the request is cancelled. Nothing but the response may follow then.
        is_abandoned: Whether the response was sent although the code that serves the request still runs.
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
        self.params: Mapping[str, Any] = params if params is not None else {}
        self.stream = stream
        self.principal = principal
        self.client = client
        self.transport = transport
        self.holds: Sequence[Hold] = ()
        self.is_cancelled = self.is_done = self.is_abandoned = False
        self._block: CancellableBlock | None = None
        self._error: RpcError | None = None

    async def run(self, outcome: Coroutine[Any, Any, Any]) -> Message | None:
        """Await the result. Returns the response; None if the request was cancelled without an error."""
        response: Message | None = None
        if self.is_cancelled:
            outcome.close()
        else:
            with CancellableBlock() as self._block:
                try:
                    response = make_response(self.id, await outcome)
                except RpcError as error:
                    response = make_error(self.id, error)
                except BaseException as error:
                    if self.is_cancelled or is_being_cancelled(error) or self._block.is_interrupted(error):
                        raise
                    response = make_error(self.id, report_failure(self.method, error))
        self.is_done = True
        if not self.is_cancelled:
            return response
        return make_error(self.id, self._error) if self._error is not None else None

    def lend_slots(self) -> None:
        """Lend the slots of limiters that the call holds, while no client reads its stream (see `Slot.lend`)."""
        for hold in self.holds:
            if isinstance(hold, Slot):
                hold.lend()

    def reclaim_slots(self) -> None:
        """Take back what `lend_slots` has lent."""
        for hold in self.holds:
            if isinstance(hold, Slot):
                hold.reclaim()

    def cancel(self, error: RpcError | None = None) -> None:
        """Cancel the request. With an error, that is its response; without one, it has none."""
        if not self.is_cancelled:
            self.is_cancelled = self.is_done = True
            self._error = error
        if self._block is not None:
            self._block.cancel()

    def abandon(self) -> None:
        """Send the error of a cancelled request whose code ignores the cancellation. What it returns is dropped."""
        if self._error is not None and not self.is_abandoned:
            self.is_abandoned = True
            self.stream.finish(make_error(self.id, self._error))


def report_failure(method: str, error: BaseException) -> RpcError:
    """Log an unexpected error. Returns the error for the other side, which gets a reference to the log and no more."""
    reference = os.urandom(6).hex()
    logger.error("%s failed, reference %s", method, reference, exc_info=error)
    return RpcError(INTERNAL_ERROR, f"{method} failed with an internal error (reference {reference}).")


def make_response(request_id: RequestId, result: Any) -> Message:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def make_error(request_id: RequestId | None, error: RpcError) -> Message:
    return {"jsonrpc": "2.0", "id": request_id, "error": error.to_json()}


def make_notification(method: str, params: Mapping[str, Any] | None) -> Message:
    return {"jsonrpc": "2.0", "method": method, **({"params": params} if params is not None else {})}
