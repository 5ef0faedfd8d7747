"""The ways to a server: four transports, two eras, and both event loops where the transport runs on both."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from mcp_bridge._app.bridge import Bridge
from mcp_bridge._transports import memory
from tests.kits.constants import STATELESS, TIMEOUT
from tests.kits.protocol import protocol_launch, protocol_server
from tests.kits.protocol.protocol_hosting import Hosting
from tests.kits.protocol.protocol_http import http_wire, sse_wire
from tests.kits.protocol.protocol_wire import Json, Wire, beside


@dataclass(frozen=True)
class Way:
    """One way to a server."""

    transport: str
    stateless: bool
    backend: str = "asyncio"

    def __str__(self) -> str:
        return f"{self.transport}-{'stateless' if self.stateless else 'handshake'}-{self.backend}"


TRANSPORTS = ("memory", "stdio", "http", "sse")


def ways(*transports: str, stateless: bool | None = None, both_loops: bool = False) -> list[Way]:
    """These transports in one era or both; on trio as well with `both_loops`, where a transport runs there."""
    return [
        Way(transport, era, backend)
        for transport in transports
        for era in (False, True)
        if stateless in (None, era)
        for backend in ("asyncio", "trio")
        if backend == "asyncio" or (both_loops and transport in ("memory", "stdio"))
    ]


def over(*transports: str, stateless: bool | None = None, both_loops: bool = False) -> pytest.MarkDecorator:
    """Run a test over these transports; without this mark it runs in memory, in both eras.

    Name a transport where the code under test differs by it. `TRANSPORTS` are for the few tests that show that each
    transport carries everything.
    """
    return pytest.mark.parametrize("way", ways(*transports, stateless=stateless, both_loops=both_loops), ids=str)


EVERY_TRANSPORT = over(*TRANSPORTS)
STATELESS_ONLY = over("memory", stateless=True)
HANDSHAKE_ONLY = over("memory", stateless=False)


@dataclass
class Connected:
    """A running server, and connections to it: raw ones, and those of the official client.

    Over stdio each connection has a server process of its own; otherwise all of them share one server.
    """

    way: Way
    prefork: str
    options: Mapping[str, Any] = field(default_factory=dict)
    bridge: Bridge = field(default_factory=Bridge)
    base: str = ""
    host: Hosting | None = None

    @property
    def stateless(self) -> bool:
        """The era: whether connections are without a handshake."""
        return self.way.stateless

    def wire(self, *, hello: bool = True, **capabilities: Any) -> AbstractAsyncContextManager[Any]:
        """A raw connection of a client with these capabilities; without `hello` it has not begun yet."""
        options: dict[str, Any] = {"stateless": self.stateless, "capabilities": capabilities, "hello": hello}
        match self.way.transport:
            case "memory":
                return _memory_wire(self.bridge, **options)
            case "stdio":
                return stdio_wire(self.command(), **options)
            case "http":
                return http_wire(self.base, **options)
        return sse_wire(self.base, **options)

    def other_era(self) -> Connected:
        """The same server, for clients of the other era."""
        return replace(self, way=replace(self.way, stateless=not self.stateless))

    def end_listeners(self) -> None:
        """Have the server end its subscriptions, as when it shuts down."""
        if self.host is None:
            self.bridge.endpoint.close_subscriptions()
        else:
            self.host.portal.call(self.bridge.endpoint.close_subscriptions)

    def client(self, **options: Any) -> AbstractAsyncContextManager[Client]:
        """The official client, connected; `options` are its own."""
        options = {"mode": STATELESS if self.stateless else "legacy", **options}
        match self.way.transport:
            case "memory":
                return memory.make_client(self.bridge.endpoint, **options)
            case "stdio":
                command, *args = self.command()
                return Client(StdioServerParameters(command=command, args=args), **options)
            case "http":
                return _http_client(f"{self.base}/mcp", **options)
        return Client(sse_client(f"{self.base}/sse"), **options)

    def command(self) -> list[str]:
        """The command that starts a server over stdio."""
        options = {"backend": self.way.backend, **self.options}
        return [sys.executable, "-I", "-S", protocol_launch.__file__, self.prefork, json.dumps(options)]


@contextlib.asynccontextmanager
async def serving(
    way: Way, prefork: str, host: Hosting, options: Mapping[str, Any], http: Mapping[str, Any]
) -> AsyncIterator[Connected]:
    """A server that can be connected to in this way, for the length of the block."""
    connected = Connected(way, prefork, options)
    if way.transport == "stdio":
        yield connected
        return
    connected.bridge = bridge = protocol_server.make(**options)
    if way.transport != "memory":
        connected.host = host
        with host.serving(bridge, **http) as connected.base:
            yield connected
        return
    async with bridge.run_sources(), beside() as tasks:
        await tasks.start(bridge.endpoint.run)
        yield connected


@contextlib.asynccontextmanager
async def _http_client(url: str, **options: Any) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(timeout=TIMEOUT) as http,
        Client(streamable_http_client(url, http_client=http), **options) as client,
    ):
        yield client


class StdioWire(Wire):
    """A process: a line for each message, and nothing else."""

    transport = "stdio"

    def __init__(self, process: anyio.abc.Process, **options: Any) -> None:
        super().__init__(**options)
        self.process = process

    async def send(self, message: Any) -> None:
        """Write one line."""
        await self.write(json.dumps(message, ensure_ascii=False).encode() + b"\n")

    async def write(self, data: bytes) -> None:
        """Write bytes."""
        assert self.process.stdin is not None
        await self.process.stdin.send(data)

    async def end(self) -> int:
        """End the server's input, hear the rest; the exit code."""
        assert self.process.stdin is not None
        await self.process.stdin.aclose()
        with anyio.fail_after(TIMEOUT):
            await self.left()
            return await self.process.wait()

    async def read(self) -> None:
        """Hear every line; each must be a message."""
        assert self.process.stdout is not None
        rest = b""
        async for data in self.process.stdout:
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self.take(json.loads(line))
        assert not rest, f"an unfinished line: {rest!r}"
        self.over()


@contextlib.asynccontextmanager
async def stdio_wire(
    command: list[str], *, hello: bool = True, stderr: Any = None, **options: Any
) -> AsyncIterator[StdioWire]:
    """A raw connection to a server process, begun; the process does not outlive the block."""
    async with (
        await anyio.open_process(command, stderr=stderr) as process,
        beside() as tasks,
    ):
        wire = StdioWire(process, **options)
        tasks.start_soon(wire.read)
        if hello:
            await wire.hello()
        yield wire
        await wire.end()


class MemoryWire(Wire):
    """Streams in this process."""

    transport = "memory"

    def __init__(self, sink: Any, source: Any, **options: Any) -> None:
        super().__init__(**options)
        self._sink, self._source = sink, source

    async def send(self, message: Any) -> None:
        """Hand one message over."""
        await self._sink.send(SessionMessage(types.jsonrpc_message_adapter.validate_python(message, by_name=False)))

    async def read(self) -> None:
        """Hear every message, as it would be written."""
        async for item in self._source:
            heard: Json = item.message.model_dump(by_alias=True, exclude_unset=True, mode="json")
            self.take(heard)
        self.over()


@contextlib.asynccontextmanager
async def _memory_wire(bridge: Bridge, *, hello: bool, **options: Any) -> AsyncIterator[MemoryWire]:
    async with memory.connect(bridge.endpoint) as (source, sink), beside() as tasks:
        wire = MemoryWire(sink, source, **options)
        tasks.start_soon(wire.read)
        if hello:
            await wire.hello()
        yield wire
        await sink.aclose()
        await wire.left()
