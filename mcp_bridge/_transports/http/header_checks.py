"""Compares the headers of a stateless request with its body (MCP 2026-07-28, basic/transports/streamable-http).

Headers repeat the version, the method, the name and declared arguments, so proxies can route requests without parsing
bodies. If a header differed from the body, a proxy would decide about another request than the one that runs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from mcp_bridge._contracts.jsonrpc import HEADER_MISMATCH, RpcError
from mcp_bridge._json_schema.headers import DeclaredHeader, list_headers
from mcp_bridge._protocol.wire.http_headers import NAMED_METHODS, decode_header
from mcp_bridge._protocol.wire.meta_keys import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from mcp_bridge._protocol.wire.tools import WireTool
from mcp_bridge._server.endpoint import Endpoint
from mcp_bridge._server.requests import check_version, read_version
from mcp_bridge._transports.http.request import HttpRequest

_ROUTING = (b"mcp-protocol-version", b"mcp-method", b"mcp-name")
VERSION_HEADER, VERSION_PART = "mcp-protocol-version", "envelope's protocol version"
"""The names of the protocol version in the header and in the body of a stateless request, for errors."""
_DECIMAL = re.compile(r"(-?[0-9]+)(?:\.0+)?")


class HeaderChecks:
    """Compares headers with messages. The declared headers of each tool are cached."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._tools = endpoint.tools.index
        self._declared: dict[str, tuple[WireTool, tuple[DeclaredHeader, ...]]] = {}

    def check_headers(self, request: HttpRequest, version: str, method: str, params: Mapping[str, Any]) -> None:
        """Raise RpcError unless the headers agree with the body. `version` is the value of MCP-Protocol-Version."""
        for header in _ROUTING:
            if header in request.repeated:
                raise RpcError(HEADER_MISMATCH, f"{header.decode()} header appears more than once")
        meta = params.get("_meta")
        if not isinstance(meta, dict) or PROTOCOL_VERSION not in meta or CLIENT_CAPABILITIES not in meta:
            # A client of the handshake era gets an error about its version, another client one about the missing field.
            check_version(version)
            read_version(params)
        elif version != meta[PROTOCOL_VERSION]:
            raise make_mismatch(VERSION_HEADER, VERSION_PART)
        if request.get_header(b"mcp-method") != method:
            raise make_mismatch("mcp-method", "method")
        key = NAMED_METHODS.get(method)
        name = params.get(key) if key is not None else None
        if name is None:
            return
        if decode_header(request.get_header(b"mcp-name")) != name:
            raise make_mismatch("mcp-name", f"{key!r} parameter")
        tool = self._tools.get(name) if method == "tools/call" else None
        if tool is None:
            return
        known_tool, headers = self._declared.get(name, (None, ()))
        if known_tool is not tool:
            headers = list_headers(tool.input_schema)
            self._declared[name] = (tool, headers)
        for declared_header in headers:
            _check_argument(request, declared_header, params.get("arguments"))


def _check_argument(request: HttpRequest, header: DeclaredHeader, arguments: Any) -> None:
    """Raise RpcError unless the declared header of an argument agrees with the argument."""
    # The path leads to the argument through nested objects.
    value = arguments
    for key in header.path:
        value = value.get(key) if isinstance(value, Mapping) else None
    name, argument = f"Mcp-Param-{header.name}", ".".join(header.path)
    name_bytes = name.lower().encode()
    header_value = request.get_header(name_bytes)
    problem = None
    if name_bytes in request.repeated:
        problem = "header appears more than once"
    elif not isinstance(value, str | int | float):
        if header_value is not None:
            problem = f"header is present but the request body's {argument!r} argument is absent"
    elif header_value is None:
        problem = f"header is missing but the request body's {argument!r} argument is present"
    elif not _is_equal(header.type, value, decode_header(header_value)):
        raise make_mismatch(name, f"{argument!r} argument")
    if problem is not None:
        raise RpcError(HEADER_MISMATCH, f"{name} {problem}")


def _is_equal(schema_type: str, value: str | float, text: str | None) -> bool:
    """Return whether a header has this value. Integers are compared as numbers: 42 and 42.0 are equal."""
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    is_number = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if schema_type == "integer" and is_number and text is not None:
        match = _DECIMAL.fullmatch(text)
        if match is not None:
            # int() raises ValueError for more than 4300 digits.
            return len(text) < 4000 and int(match[1]) == value
    return text == str(value)


def make_mismatch(header: str, part: str) -> RpcError:
    """Return the error of a header that differs from a part of the body."""
    return RpcError(HEADER_MISMATCH, f"{header} header does not match the request body's {part}")
