"""The raw client over streams in this process."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import mcp_types as types
from mcp.shared.message import SessionMessage

from mcp_bridge._app.bridge import Bridge
from mcp_bridge._transports import memory
from tests.client.raw_client import RawClient, open_task_group


class MemoryClient(RawClient):
    """A connection to an endpoint in this process."""

    transport = "memory"

    def __init__(self, sink: Any, source: Any, **options: Any) -> None:
        super().__init__(**options)
        self._sink, self._source = sink, source

    async def send(self, message: Any) -> None:
        await self._sink.send(SessionMessage(types.jsonrpc_message_adapter.validate_python(message, by_name=False)))

    async def read(self) -> None:
        """Record each message as the JSON that a transport would write."""
        async for item in self._source:
            self.record(item.message.model_dump(by_alias=True, exclude_unset=True, mode="json"))
        self.record_end()


@contextlib.asynccontextmanager
async def connect_in_memory(bridge: Bridge, *, initialize: bool = True, **options: Any) -> AsyncIterator[MemoryClient]:
    """Yield a client of a bridge in this process."""
    async with memory.connect(bridge.endpoint) as (source, sink), open_task_group() as tasks:
        client = MemoryClient(sink, source, **options)
        tasks.start_soon(client.read)
        if initialize:
            await client.initialize()
        yield client
        await sink.aclose()
        await client.wait_until_closed()
