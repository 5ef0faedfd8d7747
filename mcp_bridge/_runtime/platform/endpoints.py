"""Chooses the local endpoints of this system: Unix sockets, or TCP with tokens where Python has none (Windows)."""

from __future__ import annotations

import socket
import sys

from mcp_bridge._runtime.platform.local_connection import LocalEndpoints

endpoints: LocalEndpoints
if sys.platform != "win32" and hasattr(socket, "AF_UNIX"):
    from mcp_bridge._runtime.platform import unix_sockets

    endpoints = unix_sockets
else:
    from mcp_bridge._runtime.platform import tcp_endpoints

    endpoints = tcp_endpoints
