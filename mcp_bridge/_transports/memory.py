"""The memory transport: connects clients to an endpoint in the same process.

`EndpointAddress` is for the bridge's own client (`UpstreamSession`), which the command line uses. `make_client` is for
the client of the MCP SDK, which `mcp_bridge.testing` offers. Messages are still encoded as JSON, so both sides see
exactly what another transport would carry.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import anyio

from mcp_bridge._protocol.peer.connection import Message, MessageStream
from mcp_bridge._protocol.peer.json_lines import dump_message
from mcp_bridge._runtime.exact_json import load_json
from mcp_bridge._runtime.tasks import own_tasks
from mcp_bridge._server.endpoint import ClientConnection, Endpoint
from mcp_bridge._upstream.messages import Receiver
from mcp_bridge._upstream.session import UpstreamChannel

if TYPE_CHECKING:
    from mcp.client import Client
    from pydantic import BaseModel


class EndpointAddress:
    """The address of an endpoint in this process (an `UpstreamAddress`)."""

    label = "this server"

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    @asynccontextmanager
    async def open_channel(self, receive: Receiver, on_end: Callable[[str], None]) -> AsyncIterator[UpstreamChannel]:
        """Yield a channel. `receive` gets the messages of the endpoint."""
        async with own_tasks() as tasks:
            client = self._endpoint.connect(
                MemoryStream(lambda data: receive(load_json(data), None)), tasks, transport="memory"
            )
            try:
                yield EndpointChannel(client)
            finally:
                client.close()


class EndpointChannel:
    """The channel to an endpoint in this process."""

    def __init__(self, client: ClientConnection) -> None:
        self.stream = MemoryStream(lambda data: client.receive(load_json(data)))

    def adopt_version(self, version: str) -> None:
        """Do nothing: messages of all versions are carried in the same way."""


class MemoryStream(MessageStream):
    """Carries messages as JSON to a function, at once."""

    def __init__(self, deliver: Callable[[bytes], object]) -> None:
        self._deliver = deliver

    def send(self, message: Message) -> None:
        data = dump_message(message)
        # `dump_message` drops a request or notification that JSON cannot express.
        if data:
            self._deliver(data)

    async def drain(self) -> None:
        """Only let other tasks run, because every message is delivered at once."""
        await anyio.lowlevel.checkpoint()


def make_client(endpoint: Endpoint, **options: Any) -> Client:
    """Return an `mcp.Client` for an endpoint, which the caller enters. `options` are the client's own, such as `mode`.

    Raises ImportError without the extra `testing`.
    """
    try:
        from mcp.client import Client
    except ImportError as error:
        hint = "Install it: pip install 'mcp-tool-bridge[testing]'"
        raise ImportError(f"mcp_bridge.testing needs the official client of MCP. {hint}") from error

    return Client(connect(endpoint), **options)


@asynccontextmanager
async def connect(endpoint: Endpoint) -> AsyncIterator[tuple[Any, Any]]:
    """Yield the streams of a client of the SDK, connected to the endpoint."""
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    to_client, from_server = anyio.create_memory_object_stream[Any](math.inf)
    to_server, from_client = anyio.create_memory_object_stream[Any](math.inf)

    def deliver(data: bytes) -> None:
        # The client may have disconnected before this message.
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            to_client.send_nowait(SessionMessage(jsonrpc_message_adapter.validate_json(data, by_name=False)))

    async with own_tasks() as tasks, anyio.create_task_group() as group:
        client = endpoint.connect(MemoryStream(deliver), tasks, transport="memory")

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
    from pydantic import BaseModel

    plain_message: Message = {}
    for name in message.model_fields_set:
        value = getattr(message, name)
        # The `error` of a response is a model.
        plain_message[name] = value.model_dump() if isinstance(value, BaseModel) else value
    return plain_message
