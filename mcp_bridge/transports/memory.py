"""Memory: the official client connected to an endpoint in the same process, without bytes between them."""

from __future__ import annotations

from typing import Any

from mcp.client import Client

from mcp_bridge.server.endpoint import Endpoint


def client(endpoint: Endpoint, **options: Any) -> Client:
    """An `mcp.Client` (not yet entered) that talks to `endpoint`; `options` are the client's own, such as `mode`."""
    return Client(endpoint.kernel, **options)
