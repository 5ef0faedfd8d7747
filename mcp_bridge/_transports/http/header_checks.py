"""Compares the headers of a stateless request with its body (MCP 2026-07-28, basic/transports/streamable-http)."""

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
"""The header of the version of a stateless request, and the same part of the body."""
_DECIMAL = re.compile(r"(-?[0-9]+)(?:\.0+)?")


class HeaderChecks:
    """Compares headers with messages. The declared headers of a tool are found once."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._tools = endpoint.tools.index
        self._declared: dict[str, tuple[WireTool, tuple[DeclaredHeader, ...]]] = {}

    def check_headers(self, request: HttpRequest, version: str, method: str, params: Mapping[str, Any]) -> None:
        """Raise RpcError unless the headers agree with the body. The caller has read the header of the version."""
        for header in _ROUTING if request.repeated else ():
            if header in request.repeated:
                raise RpcError(HEADER_MISMATCH, f"{header.decode()} header appears more than once")
        meta = params.get("_meta")
        if not isinstance(meta, dict) or PROTOCOL_VERSION not in meta or CLIENT_CAPABILITIES not in meta:
            # A handshake client fails because of its version.
            check_version(version)
            # The error names the missing field.
            read_version(params)
        elif version != meta[PROTOCOL_VERSION]:
            raise make_mismatch(VERSION_HEADER, VERSION_PART)
        if request.get_header(b"mcp-method") != method:
            raise make_mismatch("mcp-method", "method")
        if (key := NAMED_METHODS.get(method)) is not None and (name := params.get(key)) is not None:
            if decode_header(request.get_header(b"mcp-name")) != name:
                raise make_mismatch("mcp-name", f"{key!r} parameter")
            if method == "tools/call" and (declared := self._find_declared(name)):
                _check_arguments(request, declared, params.get("arguments"))

    def _find_declared(self, name: str) -> tuple[DeclaredHeader, ...]:
        tool = self._tools.get(name)
        if tool is None:
            return ()
        known = self._declared.get(name)
        if known is None or known[0] is not tool:
            known = self._declared[name] = (tool, list_headers(tool.input_schema))
        return known[1]


def _check_arguments(request: HttpRequest, declared: tuple[DeclaredHeader, ...], arguments: Any) -> None:
    for header in declared:
        value = arguments
        for key in header.path:
            value = value.get(key) if isinstance(value, Mapping) else None
        name = f"mcp-param-{header.name.lower()}".encode()
        given, argument = request.get_header(name), ".".join(header.path)
        if name in request.repeated:
            raise RpcError(HEADER_MISMATCH, f"Mcp-Param-{header.name} header appears more than once")
        if value is None or not isinstance(value, str | int | float):
            if given is not None:
                problem = f"header is present but the request body's {argument!r} argument is absent"
                raise RpcError(HEADER_MISMATCH, f"Mcp-Param-{header.name} {problem}")
        elif given is None:
            problem = f"header is missing but the request body's {argument!r} argument is present"
            raise RpcError(HEADER_MISMATCH, f"Mcp-Param-{header.name} {problem}")
        elif not _is_equal(header.type, value, decode_header(given)):
            raise make_mismatch(f"Mcp-Param-{header.name}", f"{argument!r} argument")


def _is_equal(kind: str, value: str | float, text: str | None) -> bool:
    """Whether a header has this value. Integers are compared as numbers: 42 and 42.0 are equal."""
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    is_number = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if kind == "integer" and is_number and text is not None and (decimal := _DECIMAL.fullmatch(text)):
        return len(text) < 4000 and int(decimal[1]) == value
    return text == str(value)


def make_mismatch(header: str, part: str) -> RpcError:
    """Return the error of a header that differs from a part of the body."""
    return RpcError(HEADER_MISMATCH, f"{header} header does not match the request body's {part}")
