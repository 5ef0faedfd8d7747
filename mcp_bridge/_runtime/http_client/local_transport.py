"""HTTP over the local endpoint of a server of this user."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import anyio
import httpcore2
import httpx2

from mcp_bridge._runtime.http_client.client import PoolTransport
from mcp_bridge._runtime.platform.endpoints import endpoints
from mcp_bridge._runtime.platform.tcp_endpoints import HOST, read_endpoint


def make_local_transport(path: Path) -> httpx2.AsyncBaseTransport:
    """Return the transport for requests to the endpoint at `path`."""
    if endpoints.HAS_UNIX_SOCKETS:
        return httpx2.AsyncHTTPTransport(uds=str(path))
    return PoolTransport({"http": httpcore2.AsyncConnectionPool(network_backend=TokenBackend(path))})


class TokenBackend(httpcore2.AsyncNetworkBackend):
    """Connects to a TCP endpoint, and checks that its server belongs to this user before any request."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._backend = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to the endpoint, whatever the host is. Raises ConnectError."""
        try:
            endpoint = read_endpoint(self._path)
        except OSError as error:
            raise httpcore2.ConnectError(str(error)) from error
        stream = await self._backend.connect_tcp(HOST, endpoint.port, timeout=timeout, socket_options=socket_options)
        try:
            await stream.write(endpoint.token, timeout=timeout)
            proof = b""
            while len(proof) < len(endpoint.proof) and endpoint.proof.startswith(proof):
                data = await stream.read(len(endpoint.proof) - len(proof), timeout=timeout)
                if not data:
                    break
                proof += data
            if proof != endpoint.proof:
                raise httpcore2.ConnectError(f"the server at port {endpoint.port} does not belong to this user")
        except BaseException:
            with anyio.CancelScope(shield=True):
                await stream.aclose()
            raise
        return stream

    async def connect_unix_socket(self, *args: Any, **kwargs: Any) -> httpcore2.AsyncNetworkStream:
        raise httpcore2.UnsupportedProtocol("this system has no Unix sockets")

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)
