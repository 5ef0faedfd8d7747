"""For tests of the proxy of sandboxes: a running proxy, and a client that sends bytes to it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import anyio

from mcp_bridge._runtime.egress.hosts import HostRules
from mcp_bridge._runtime.egress.proxy import EgressProxy
from tests.kits.constants import TIMEOUT


@dataclass
class NameTable:
    """Resolves names: each time to the next addresses of the list, and to the last ones from then on.

    Attributes:
        addresses: The addresses by names. Other names cannot be resolved.
        queries: The names that were resolved.
    """

    addresses: dict[str, list[list[str]]] = field(default_factory=dict)
    queries: list[str] = field(default_factory=list)

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.queries.append(host)
        if host not in self.addresses:
            raise socket.gaierror(f"unknown name {host}")
        answers = self.addresses[host]
        return answers.pop(0) if len(answers) > 1 else answers[0]


@dataclass
class RunningProxy:
    """A proxy with its port, the lines of its log, and the names it resolves."""

    port: int
    lines: list[str]
    names: NameTable

    @contextlib.asynccontextmanager
    async def connect(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Connect to the proxy."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            yield reader, writer
        finally:
            writer.close()

    async def exchange(self, request: str) -> str:
        """Send a request and return everything that the proxy sends until it closes the connection."""
        with anyio.fail_after(TIMEOUT):
            async with self.connect() as (reader, writer):
                writer.write(request.encode())
                await writer.drain()
                return (await reader.read()).decode()


@contextlib.asynccontextmanager
async def run_proxy(
    *hosts: str, allow: Sequence[str] = ("loopback",), **addresses: list[list[str]]
) -> AsyncIterator[RunningProxy]:
    """Run a proxy with these hosts. The other names are those of `.test`, with the addresses they resolve to."""
    names = NameTable({f"{name}.test": answers for name, answers in addresses.items()})
    lines: list[str] = []
    proxy = EgressProxy(HostRules.from_texts(hosts, allow), resolve=names.resolve, report=lines.append)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(proxy.serve, listener)
            yield RunningProxy(listener.getsockname()[1], lines, names)
            tasks.cancel_scope.cancel()
