"""The ways to a server: four transports, two eras, and both event loops where the transport runs on both."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from mcp_bridge._app.bridge import Bridge
from mcp_bridge._transports import memory
from tests.client.http_client import connect_over_http, connect_over_sse
from tests.client.memory_client import connect_in_memory
from tests.client.raw_client import open_task_group
from tests.client.stdio_client import start_server
from tests.kits.constants import STATELESS, TIMEOUT
from tests.kits.protocol import protocol_launch, protocol_server
from tests.kits.protocol.protocol_hosting import Hosting


@dataclass(frozen=True)
class Way:
    """One way to a server."""

    transport: str
    stateless: bool
    backend: str = "asyncio"

    def __str__(self) -> str:
        return f"{self.transport}-{'stateless' if self.stateless else 'handshake'}-{self.backend}"


TRANSPORTS = ("memory", "stdio", "http", "sse")


def list_ways(*transports: str, stateless: bool | None = None, both_loops: bool = False) -> list[Way]:
    """Return these transports in one era or both. `both_loops` adds trio for transports that run on it."""
    return [
        Way(transport, era, backend)
        for transport in transports
        for era in (False, True)
        if stateless in (None, era)
        for backend in ("asyncio", "trio")
        if backend == "asyncio" or (both_loops and transport in ("memory", "stdio"))
    ]


def over(*transports: str, stateless: bool | None = None, both_loops: bool = False) -> pytest.MarkDecorator:
    """Run a test over these transports. Without this mark it runs in memory, in both eras.

    Name a transport if the code under test depends on it. `TRANSPORTS` is for the few tests that check that every
    transport carries all messages.
    """
    return pytest.mark.parametrize("way", list_ways(*transports, stateless=stateless, both_loops=both_loops), ids=str)


EVERY_TRANSPORT = over(*TRANSPORTS)
STATELESS_ONLY = over("memory", stateless=True)
HANDSHAKE_ONLY = over("memory", stateless=False)


@dataclass
class Connected:
    """A running server with raw and official clients.

    Over stdio each connection has a separate server process. Otherwise all share one server.
    """

    way: Way
    prefork: str
    options: Mapping[str, Any] = field(default_factory=dict)
    bridge: Bridge = field(default_factory=Bridge)
    base: str = ""
    host: Hosting | None = None

    @property
    def stateless(self) -> bool:
        """Whether connections are without a handshake."""
        return self.way.stateless

    def raw_client(self, *, initialize: bool = True, **capabilities: Any) -> AbstractAsyncContextManager[Any]:
        """Connect a raw client with these capabilities. Without `initialize`, the test does the handshake."""
        options: dict[str, Any] = {"stateless": self.stateless, "capabilities": capabilities, "initialize": initialize}
        match self.way.transport:
            case "memory":
                return connect_in_memory(self.bridge, **options)
            case "stdio":
                return start_server(self.command(), **options)
            case "http":
                return connect_over_http(self.base, **options)
        return connect_over_sse(self.base, **options)

    def other_era(self) -> Connected:
        """Return the same server for clients of the other era."""
        return replace(self, way=replace(self.way, stateless=not self.stateless))

    def end_listeners(self) -> None:
        """Have the server end its subscriptions, as when it shuts down."""
        if self.host is None:
            self.bridge.endpoint.close_subscriptions()
        else:
            self.host.portal.call(self.bridge.endpoint.close_subscriptions)

    def client(self, **options: Any) -> AbstractAsyncContextManager[Client]:
        """Connect the official client; `options` are its own."""
        options = {"mode": STATELESS if self.stateless else "legacy", **options}
        match self.way.transport:
            case "memory":
                return memory.make_client(self.bridge.endpoint, **options)
            case "stdio":
                command, *args = self.command()
                return Client(StdioServerParameters(command=command, args=args), **options)
            case "http":
                return _http_client(f"{self.base}/mcp", **options)
        return Client(sse_client(f"{self.base}/sse", timeout=TIMEOUT), **options)

    def command(self) -> list[str]:
        """Return the command of a server over stdio."""
        options = {"backend": self.way.backend, **self.options}
        return [sys.executable, "-I", "-S", protocol_launch.__file__, self.prefork, json.dumps(options)]


@contextlib.asynccontextmanager
async def run_server(
    way: Way, prefork: str, host: Hosting, options: Mapping[str, Any], http: Mapping[str, Any]
) -> AsyncIterator[Connected]:
    """Yield a server with connections in this way, until the block ends."""
    connected = Connected(way, prefork, options)
    if way.transport == "stdio":
        yield connected
        return
    connected.bridge = bridge = protocol_server.build_bridge(**options)
    if way.transport != "memory":
        connected.host = host
        with host.serving(bridge, **http) as connected.base:
            yield connected
        return
    async with bridge.run_sources(), open_task_group() as tasks:
        await tasks.start(bridge.endpoint.run)
        yield connected


@contextlib.asynccontextmanager
async def _http_client(url: str, **options: Any) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(timeout=TIMEOUT) as http,
        Client(streamable_http_client(url, http_client=http), **options) as client,
    ):
        yield client
