"""The memory transport: connects the official client to an endpoint in the same process."""

from __future__ import annotations

from typing import Any

from mcp.client import Client

from mcp_bridge.server.endpoint import Endpoint


def make_client(endpoint: Endpoint, **options: Any) -> Client:
    """Return an `mcp.Client`, not yet entered, for an endpoint. `options` are the client's own, such as `mode`."""
    return Client(endpoint.kernel, **options)
