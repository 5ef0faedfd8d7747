"""Newline-framed JSON-RPC: lines to messages, messages to lines (MCP, transports "stdio")."""

from __future__ import annotations

import json
import logging
from typing import Any

import mcp_types as types
import orjson
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR
from pydantic import ValidationError

from mcp_bridge.runtime.line_splitter import LIMIT

logger = logging.getLogger("mcp_bridge.stdio")

Message = types.JSONRPCMessage


def parse(line: bytes | None) -> Message | bytes:
    """A line as a message, or the error to answer with: -32700 for what is not JSON, -32600 for what is no request."""
    if line is None:
        return error(None, INVALID_REQUEST, f"Invalid Request: a message may have {LIMIT} bytes")
    try:
        data = orjson.loads(line)
    except ValueError:
        return error(None, PARSE_ERROR, "Parse error: a message must be one JSON object in UTF-8")
    if not isinstance(data, dict):
        return error(None, INVALID_REQUEST, "Invalid Request: a message must be one JSON object, not a batch of them")
    try:
        twice = None if _is_all_of(data, line) else _twice(line)
    except (ValueError, RecursionError):
        return error(_id(data), INVALID_REQUEST, "Invalid Request: a message is nested too deep")
    if twice is not None:
        number = _id(data) if _names(line).count("id") == 1 else None
        return error(number, INVALID_REQUEST, f"Invalid Request: {twice[:80]!r} stands twice in an object")
    if wrong := _ambiguous(data):
        return error(_id(data), INVALID_REQUEST, f"Invalid Request: {wrong}")
    if _has_odd_token(data):
        return error(_id(data), INVALID_PARAMS, "Invalid params: a progressToken is a string or an integer")
    try:
        message = types.jsonrpc_message_adapter.validate_python(data, by_name=False)
    except ValidationError:
        return error(_id(data), INVALID_REQUEST, "Invalid Request: not a JSON-RPC 2.0 message")
    if isinstance(message, types.JSONRPCNotification) and "id" in data:  # the SDK overlooks ids that it cannot use
        return error(None, INVALID_REQUEST, "Invalid Request: an id is a string or an integer of at most 64 bits")
    return message


class Twice(ValueError):
    """A name stands twice in one object: who reads the message beside us may see the other value."""


def _once(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) == len(pairs):
        return
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise Twice(name)
        seen.add(name)


_STRICT = json.JSONDecoder(object_pairs_hook=_once)
_NAMED = json.JSONDecoder(object_pairs_hook=lambda pairs: [name for name, _ in pairs])
_MEMBERS = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})


def _is_all_of(data: Any, line: bytes) -> bool:
    """Whether data, written again, is the line it was read from, so that nothing of it got lost; the usual case."""
    try:
        return orjson.dumps(data) == line
    except TypeError:  # deeper than orjson writes
        return False


def _twice(line: bytes) -> str | None:
    """A name that stands twice in one object, however deep. Raises ValueError or RecursionError for no JSON."""
    try:
        _STRICT.decode(line.decode())
    except Twice as twice:
        return str(twice)
    return None


def _names(line: bytes) -> list[str]:
    """The names in a message that is an object, in its order."""
    names: list[str] = _NAMED.decode(line.decode())
    return names


def _ambiguous(data: dict[str, Any]) -> str | None:
    """What makes two messages of one: to a reader that ignores case, or as a request that is a response too."""
    for name in data:
        if name not in _MEMBERS and name.lower() in _MEMBERS:
            return f"{name.lower()!r} is written otherwise"
    if "method" in data and ("result" in data or "error" in data):
        return "a message is a request or a response"
    params = data.get("params")
    if isinstance(params, dict) and len({name.lower() for name in params}) != len(params):
        return "names in params are told apart by case alone"
    return None


def _has_odd_token(data: dict[str, Any]) -> bool:
    """Whether progress is asked for under what is no token: the SDK takes a truth value for a number."""
    params = data.get("params")
    meta = params.get("_meta") if isinstance(params, dict) and "id" in data else None
    token = meta.get("progressToken", 0) if isinstance(meta, dict) else 0
    return isinstance(token, bool) or not isinstance(token, str | int)


def _id(data: dict[str, Any]) -> str | int | None:
    """The id of what is nearly a request, where it can be read; the id of a response is one of ours, and not told."""
    answers = "method" not in data and ("result" in data or "error" in data)
    given = None if answers else data.get("id")
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
