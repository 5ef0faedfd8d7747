"""Two JSON-RPC connections in one process, joined by streams in memory."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import orjson

from mcp_bridge._contracts.jsonrpc import METHOD_NOT_FOUND, RpcError
from mcp_bridge._protocol.peer.connection import IncomingRequest, Message, MessageStream, PeerConnection, RequestCounter
from mcp_bridge._runtime.tasks import own_tasks

Handler = Callable[[IncomingRequest], Any]


class MemoryLink(MessageStream):
    """One direction: a message stream with a record of the sent messages. It delivers them later, as JSON."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self._source, self._sink = anyio.create_memory_object_stream[bytes](math.inf)

    def send(self, message: Message) -> None:
        self.sent.append(message)
        self._source.send_nowait(orjson.dumps(message))

    async def deliver(self, receiver: PeerConnection) -> None:
        with self._source, self._sink:
            async for data in self._sink:
                receiver.receive(orjson.loads(data))

    def list_responses(self) -> list[Message]:
        return [message for message in self.sent if "method" not in message]

    def list_methods(self) -> list[str]:
        return [message["method"] for message in self.sent if "method" in message]


class RecordingStream(MessageStream):
    """A message stream without delivery."""

    def __init__(self) -> None:
        self.responses: list[Message | None] = []

    def send(self, message: Message) -> None: ...

    def finish(self, response: Message | None) -> None:
        self.responses.append(response)


class PeerSide:
    """One side: its connection, the handlers of its methods, and its received notifications."""

    def __init__(self) -> None:
        self.handlers: dict[str, Handler] = {}
        self.on_notification: Callable[[str, Mapping[str, Any]], None] = lambda method, params: None
        self.notifications: list[tuple[str, Mapping[str, Any]]] = []
        self.counter = RequestCounter()
        self.output: MemoryLink
        self.connection: PeerConnection

    def handle_request(self, request: IncomingRequest) -> Any:
        if request.method not in self.handlers:
            raise RpcError(METHOD_NOT_FOUND, "Method not found", request.method)
        return self.handlers[request.method](request)

    def handle_notification(self, method: str, params: Mapping[str, Any]) -> None:
        self.notifications.append((method, params))
        self.on_notification(method, params)


@asynccontextmanager
async def join_peers() -> AsyncIterator[tuple[PeerSide, PeerSide]]:
    """Yield two connected sides. Their requests in flight end with the block."""
    left, right = PeerSide(), PeerSide()
    async with anyio.create_task_group() as group, own_tasks() as tasks:
        for side in (left, right):
            side.output = MemoryLink()
            side.connection = PeerConnection(side, side.output, tasks, side.counter)
        group.start_soon(left.output.deliver, right.connection)
        group.start_soon(right.output.deliver, left.connection)
        try:
            yield left, right
        finally:
            left.connection.close()
            right.connection.close()
            group.cancel_scope.cancel()


async def let_run() -> None:
    """Wait until every other task waits: all messages have been delivered then."""
    await anyio.wait_all_tasks_blocked()
