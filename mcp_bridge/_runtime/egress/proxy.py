"""EgressProxy connects a sandboxed process to the hosts of the settings, and to no others.

It is an HTTP proxy (RFC 9110, sections 3.7 and 9.3.6). A client sends one request on each connection: CONNECT for a
tunnel, or a request with an absolute `http` URL. Each sandbox has its own proxy with its own limits.

The proxy resolves a name once, checks the addresses, and connects to one of them. So no second resolution can lead
elsewhere. In a tunnel, the server name at the beginning of TLS has to be a listed host as well, because otherwise a
listed host could lead to others on the same servers. The proxy inspects nothing else in a tunnel.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from ipaddress import ip_address

import h11

from mcp_bridge._runtime.egress.exchange import (
    BUFFER,
    IDLE_TIMEOUT,
    EgressRejected,
    HttpPeer,
    forward_request,
    read_connect_target,
    read_url,
)
from mcp_bridge._runtime.egress.hosts import HostPort, HostRules, parse_address, parse_target
from mcp_bridge._runtime.egress.tunnel import run_tunnel

MAX_CONNECTIONS = 64
"""The maximum number of connections at once. Further ones wait in the queue of the system."""
HEAD_TIMEOUT = 10.0
"""Seconds in which a client has to send the head of its request."""
CONNECT_TIMEOUT = 10.0
"""Seconds for resolving a name, and again for connecting to each of its addresses."""
LOG_INTERVAL, MAX_LOGGED = 60.0, 20
"""A number of seconds, and the maximum number of hosts whose denials are logged in this time, each once."""
_ACCEPT_PAUSE = 0.1
"""Seconds after which a failed attempt to accept a connection is repeated."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


async def resolve_name(host: str, port: int) -> list[str]:
    """Return the addresses of a host, without duplicates. Raises OSError."""
    entries = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


def write_stderr(line: str) -> None:
    """Write a line to stderr, if there still is a reader."""
    with suppress(OSError):
        os.write(2, f"{line}\n".encode())


def run_proxy(listener: socket.socket, sandbox: int, hosts: Sequence[str], networks: Sequence[str]) -> None:
    """Run a proxy until its sandbox ends, and then end this process.

    `sandbox` is a descriptor of the process of the sandbox (pidfd_open(2)).
    """

    async def serve() -> None:
        listener.setblocking(False)
        asyncio.get_running_loop().add_reader(sandbox, os._exit, 0)
        await EgressProxy(HostRules.from_texts(hosts, networks)).serve(listener)

    asyncio.run(serve())


class EgressProxy:
    """The proxy of one sandbox.

    Args:
        rules: The hosts of the settings.
        resolve: Returns the addresses of a name.
        report: Receives a line for each host to which a connection was denied.
    """

    def __init__(
        self, rules: HostRules, *, resolve: Resolve = resolve_name, report: Callable[[str], None] = write_stderr
    ) -> None:
        self._rules = rules
        self._resolve = resolve
        self._report = report
        self._logged: set[HostPort] = set()
        self._logged_since = 0.0

    async def serve(self, listener: socket.socket) -> None:
        """Accept connections until cancelled. The listener has to be nonblocking."""
        slots = asyncio.Semaphore(MAX_CONNECTIONS)
        async with asyncio.TaskGroup() as tasks:
            while True:
                await slots.acquire()
                accepted = await _accept(listener)
                tasks.create_task(self._handle(accepted)).add_done_callback(lambda _: slots.release())

    async def _handle(self, accepted: socket.socket) -> None:
        """Handle the connection of a client until it ends, or neither side makes progress."""
        streams = await asyncio.open_connection(sock=accepted, limit=BUFFER)
        try:
            async with asyncio.timeout(IDLE_TIMEOUT) as deadline:
                client = HttpPeer(h11.SERVER, streams, deadline)
                try:
                    await self._handle_request(client, deadline)
                except h11.RemoteProtocolError as error:
                    rejection = EgressRejected(error.error_status_hint, "this is not a valid HTTP/1.1 request")
                    await client.send_error(rejection)
                except EgressRejected as error:
                    await client.send_error(error)
        except* (OSError, h11.ProtocolError):
            # The client or server has closed its connection, or does nothing.
            pass
        finally:
            streams[1].close()

    async def _handle_request(self, client: HttpPeer, deadline: asyncio.Timeout) -> None:
        async with asyncio.timeout(HEAD_TIMEOUT):
            request = await client.receive_event()
        if not isinstance(request, h11.Request):
            return
        is_tunnel = request.method == b"CONNECT"
        if is_tunnel:
            target, path = read_connect_target(request), b""
        else:
            target, path = read_url(request)
        server = HttpPeer(h11.CLIENT, await self._connect(target), deadline)
        try:
            if is_tunnel:
                await run_tunnel(client, server, lambda name: self._check_server_name(name, target))
            else:
                await forward_request(client, server, request, target, path)
        finally:
            server.close()

    async def _connect(self, target: HostPort) -> Streams:
        """Connect to a host, after checks of its name and addresses. Raises EgressRejected."""
        if not self._rules.includes(target):
            hint = f"Use a listed host ({self._rules}), or ask the user to add '{target}' to `network` of this sandbox."
            raise self._deny(target, f"{target} is not listed in the sandbox's network setting", hint)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                addresses = await self._resolve(target.host, target.port)
        except (OSError, UnicodeError):
            raise EgressRejected(502, f"the name {target.host} cannot be resolved") from None
        allowed = [text for text in addresses if self._rules.is_allowed_address(ip_address(text), target.port)]
        if not allowed:
            reason = f"the addresses of {target.host} ({', '.join(addresses[:5])}) are not public"
            hint = "The user can add them to `allow_addresses` of this sandbox."
            raise self._deny(target, reason, hint)
        for address in allowed:
            with suppress(OSError):
                async with asyncio.timeout(CONNECT_TIMEOUT):
                    return await asyncio.open_connection(address, target.port, limit=BUFFER)
        raise EgressRejected(502, f"{target} does not accept a connection")

    def _check_server_name(self, name: str, target: HostPort) -> bool:
        """Whether a client may send this server name in a tunnel. An address in the settings allows any name."""
        if parse_address(target.host) is not None:
            return True
        try:
            is_listed = self._rules.includes(parse_target(name, target.port))
        except ValueError:
            is_listed = False
        if not is_listed:
            self._deny(target, f"a tunnel to {target} began with the server name {name!a}, which is not listed")
        return is_listed

    def _deny(self, target: HostPort, reason: str, hint: str = "") -> EgressRejected:
        """Log a denial, and return its error."""
        if time.monotonic() - self._logged_since > LOG_INTERVAL:
            self._logged.clear()
            self._logged_since = time.monotonic()
        if target not in self._logged and len(self._logged) < MAX_LOGGED:
            self._logged.add(target)
            self._report(f"mcp-bridge: the sandbox has denied a connection: {reason}")
        return EgressRejected(403, reason, hint)


async def _accept(listener: socket.socket) -> socket.socket:
    while True:
        try:
            accepted, _ = await asyncio.get_running_loop().sock_accept(listener)
        except OSError:
            # The client has gone, or the system has no more descriptors.
            await asyncio.sleep(_ACCEPT_PAUSE)
        else:
            return accepted
