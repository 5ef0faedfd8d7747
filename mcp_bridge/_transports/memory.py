"""The memory transport: connects the official client to an endpoint in the same process."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectSendStream
from mcp.client import Client
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from pydantic import BaseModel

from mcp_bridge._protocol.peer.connection import Message
from mcp_bridge._protocol.peer.json_lines import dump_message
from mcp_bridge._runtime.tasks import own_tasks
from mcp_bridge._server.endpoint import Endpoint


def make_client(endpoint: Endpoint, **options: Any) -> Client:
    """Return an `mcp.Client`, not yet entered, for an endpoint. `options` are the client's own, such as `mode`."""
    return Client(connect(endpoint), **options)


@asynccontextmanager
async def connect(endpoint: Endpoint) -> AsyncIterator[tuple[Any, Any]]:
    """Yield the streams of a client that is connected to the endpoint."""
    to_client, from_server = anyio.create_memory_object_stream[Any](math.inf)
    to_server, from_client = anyio.create_memory_object_stream[Any](math.inf)
    async with own_tasks() as tasks, anyio.create_task_group() as group:
        client = endpoint.connect(MemoryStream(to_client), tasks, transport="memory")

        async def read_messages() -> None:
            async for item in from_client:
                client.receive(_to_plain_message(item.message))
            to_client.close()

        group.start_soon(read_messages)
        try:
            yield from_server, to_server
        finally:
            client.close()
            group.cancel_scope.cancel()
            for stream in (to_client, from_server, to_server, from_client):
                stream.close()


def _to_plain_message(message: BaseModel) -> Message:
    """Return a message of the SDK as a dict. Its params and results are dicts already."""
    members = {name: getattr(message, name) for name in message.model_fields_set}
    return {name: value.model_dump() if isinstance(value, BaseModel) else value for name, value in members.items()}


class MemoryStream:
    """Carries messages to the client."""

    def __init__(self, sink: MemoryObjectSendStream[Any]) -> None:
        self._sink = sink

    def send(self, message: Message) -> None:
        if data := dump_message(message):
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the client has disconnected
                self._sink.send_nowait(SessionMessage(jsonrpc_message_adapter.validate_json(data, by_name=False)))

    def finish(self, response: Message | None) -> None:
        if response is not None:
            self.send(response)

    async def drain(self) -> None:
        """Do nothing: the buffer has no limit."""
        await anyio.lowlevel.checkpoint()

    async def close(self) -> None:
        """Do nothing: a client cannot resume the connection."""
