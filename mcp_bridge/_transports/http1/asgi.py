"""The types of ASGI, the extension that the HTTP/1.1 server adds to them, and the reading of host names."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
AsgiMessage = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[AsgiMessage]]
Send = Callable[[AsgiMessage], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = Iterable[tuple[bytes, bytes]]

WHOLE_RESPONSE = "mcp_bridge.whole_response"
"""The key of an extension of ASGI in `scope["extensions"]`: a function that sends a whole response in one step."""
_HOST = re.compile(r"(?:\[([^][/?#@\s]+)\]|([^][/?#@\s:]+))(?::[0-9]*)?")


def read_host_name(address: bytes) -> str:
    """Return the host in `host:port` in lower case, or "" if the address has anything else (RFC 9110, 7.2)."""
    match = _HOST.fullmatch(address.decode("latin-1").strip(" \t"))
    return (match[1] or match[2]).lower() if match is not None else ""
