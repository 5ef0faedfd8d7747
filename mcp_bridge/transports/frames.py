"""Newline-framed JSON-RPC: bytes to lines, lines to messages, messages to bytes (MCP, transports "stdio")."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import mcp_types as types
import orjson
from mcp_types import INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR
from pydantic import ValidationError

logger = logging.getLogger("mcp_bridge.stdio")

LIMIT = 4 * 1024 * 1024
"""The longest line, in bytes; longer ones are answered and dropped, whatever their length, in constant memory."""

Message = types.JSONRPCMessage


class Lines:
    """Cuts bytes into lines. None stands for a line that was too long."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._skipping = False

    def feed(self, data: bytes) -> Iterator[bytes | None]:
        """The lines that `data` completes."""
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            yield from self._line(data[start:end])
            start = end + 1
        self._keep(data[start:])

    def end(self) -> Iterator[bytes | None]:
        """What is left when no more bytes come: a last line without its newline."""
        if self._rest or self._skipping:
            yield from self._line(b"")

    def _line(self, tail: bytes) -> Iterator[bytes | None]:
        if self._skipping:
            self._skipping = False
            yield None
            return
        line = bytes(self._rest + tail) if self._rest else tail
        self._rest.clear()
        if len(line) > self._limit:
            yield None
        elif line.strip():
            yield line

    def _keep(self, tail: bytes) -> None:
        if self._skipping:
            return
        self._rest += tail
        if len(self._rest) > self._limit:
            self._rest.clear()
            self._skipping = True


def parse(line: bytes | None) -> Message | bytes:
    """A line as a message, or the error to answer with: -32700 for what is not JSON, -32600 for what is no request."""
    if line is None:
        return error(None, INVALID_REQUEST, f"Invalid Request: a message may have {LIMIT} bytes")
    try:
        data = orjson.loads(line)
    except ValueError:
        return error(None, PARSE_ERROR, "Parse error: a line must be one JSON object in UTF-8")
    try:
        message = types.jsonrpc_message_adapter.validate_python(data, by_name=False)
    except ValidationError:
        return error(_id(data), INVALID_REQUEST, "Invalid Request: not a JSON-RPC 2.0 message")
    if isinstance(message, types.JSONRPCNotification) and "id" in data:  # the SDK overlooks ids that it cannot use
        return error(None, INVALID_REQUEST, "Invalid Request: an id is a string or an integer of at most 64 bits")
    return message


def _id(data: Any) -> str | int | None:
    """The id of something that is nearly a request, where it can be read."""
    given = data.get("id") if isinstance(data, dict) else None
    return given if isinstance(given, str | int) and not isinstance(given, bool) else None


def error(request: str | int | None, code: int, message: str) -> bytes:
    """A JSON-RPC error as a line."""
    return orjson.dumps({"jsonrpc": "2.0", "id": request, "error": {"code": code, "message": message}}) + b"\n"


def dump(message: Message) -> bytes:
    """A message as a line. Never raises: a reply that cannot be written becomes an error, anything else nothing."""
    try:
        return orjson.dumps(_plain(message)) + b"\n"
    except (TypeError, ValueError, RecursionError):
        if not isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            logger.warning("a message that cannot be written as JSON is left out: %s", message.method)
            return b""
        return error(message.id, INTERNAL_ERROR, "Internal error: the reply cannot be written as JSON")


def _plain(message: Message) -> dict[str, Any]:
    if isinstance(message, types.JSONRPCResponse):  # most of them; its result is plain already
        return {"jsonrpc": "2.0", "id": message.id, "result": message.result}
    return message.model_dump(by_alias=True, exclude_unset=True, mode="json", warnings=False)
