"""Lines of JSON-RPC: splits bytes into lines, parses lines and writes messages (MCP, transports, "stdio")."""

from __future__ import annotations

import json
import logging
import math
import re
from typing import Any

import orjson

from mcp_bridge._contracts.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR
from mcp_bridge._protocol.peer.connection import Message
from mcp_bridge._runtime.exact_json import dump_json, load_json
from mcp_bridge._runtime.line_splitter import MAX_LINE

logger = logging.getLogger("mcp_bridge.stdio")

_INT64 = range(-(2**63), 2**64)
"""The integers that orjson reads without loss."""
MAX_REPAIRED = 256 * 1024
"""The largest invalid text in bytes that is parsed in Python, in up to 0.1 seconds.

In larger ones, only bytes outside of UTF-8 and halves of surrogate pairs are replaced.
"""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""The first bytes of PowerShell and .NET, before the first line."""
_ESCAPE = re.compile(rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<half>u[dD][89a-fA-F]..)|.)", re.DOTALL)
"""An escape in a text of JSON: a surrogate pair, half of one, or any other."""


def parse_message(line: bytes | None) -> Message | bytes:
    """Return a line as a valid message, or an error response: -32700 for invalid JSON, -32600 otherwise."""
    if line is None:
        return format_invalid(None, f"a message may have {MAX_LINE} bytes")
    try:
        data = orjson.loads(line)
    except ValueError:
        line = _repair_line(line)
        try:
            data = orjson.loads(line)
        except ValueError as error:
            return _reject_line(line, error)
    if not isinstance(data, dict):
        return format_invalid(None, "a message must be one JSON object, not a batch of them")
    try:
        is_lossless = orjson.dumps(data) == line
    except TypeError:
        # The value is deeper than orjson can write.
        is_lossless = False
    if not is_lossless:
        # orjson reads integers of more than 64 bits as floats, and keeps the last of two equal names.
        try:
            data = _STRICT.decode(line.decode())
        except DuplicateName as duplicate:
            number = _get_request_id(data) if _NAMED.decode(line.decode()).count("id") == 1 else None
            return format_invalid(number, f"{str(duplicate)[:80]!r} occurs twice in an object")
        except (ValueError, RecursionError):
            return format_invalid(_get_request_id(data), "a message is nested too deep")
    return data if _is_usual_request(data) else _check_members(data)


def repair_json(data: bytes) -> Any:
    """Parse text that a program has written as JSON although it is invalid. Return None if that is impossible.

    Bytes outside of UTF-8 and halves of surrogate pairs are replaced, and numbers unknown to JSON become null.
    Characters that have to be escaped are accepted.
    """
    line = _repair_line(data.decode(errors="replace").encode())
    try:
        return load_json(line)
    except ValueError:
        if len(line) > MAX_REPAIRED:
            return None
    try:
        return _LENIENT.decode(line.decode())
    except (ValueError, RecursionError):
        return None


def _repair_line(line: bytes) -> bytes:
    """Return a line without a byte order mark, and with U+FFFD for halves of surrogate pairs.

    Programs in JavaScript write such halves when they truncate a text inside an emoji.
    """
    return _ESCAPE.sub(_replace_half, line.removeprefix(BYTE_ORDER_MARK))


def _replace_half(escape: re.Match[bytes]) -> bytes:
    return rb"\ufffd" if escape["half"] else escape[0]


def _reject_line(line: bytes, error: ValueError) -> Message | bytes:
    """Return the error for an invalid line, under the id of its request. A response is repaired instead.

    A request is not repaired, because its tool would receive other arguments.
    """
    data = repair_json(line)
    if isinstance(data, dict) and "method" not in data and ("result" in data or "error" in data):
        return _check_members(data)
    number = _get_request_id(data) if isinstance(data, dict) else None
    problem = f"Parse error: a message must be one JSON object in UTF-8 ({error})"
    return format_error(number, PARSE_ERROR, problem)


def _read_finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


_LENIENT = json.JSONDecoder(strict=False, parse_constant=lambda name: None, parse_float=_read_finite)


def _is_usual_request(data: dict[str, Any]) -> bool:
    """Whether a message is certainly a valid request for all readers. Most messages are."""
    if data.keys() != _REQUEST_MEMBERS or data["jsonrpc"] != "2.0":
        return False
    params, number = data["params"], data["id"]
    if type(params) is not dict or not _USUAL_PARAMS.issuperset(params):
        return False
    meta = params.get("_meta")
    if meta is not None and (type(meta) is not dict or type(meta.get("progressToken", 0)) not in _ID_TYPES):
        return False
    return type(data["method"]) is str and (type(number) is str or (type(number) is int and number in _INT64))


def _check_members(data: dict[str, Any]) -> Message | bytes:
    if problem := _find_ambiguity(data):
        return format_invalid(_get_request_id(data), problem)
    if _has_invalid_token(data):
        problem = "Invalid params: a progressToken is a string or an integer"
        return format_error(_get_request_id(data), INVALID_PARAMS, problem)
    if problem := find_invalid_member(data):
        return format_invalid(_get_request_id(data), problem)
    return data


def find_invalid_member(data: dict[str, Any]) -> str | None:
    """Return why an object is not a message of JSON-RPC 2.0 (sections 4 and 5), or None."""
    number = data.get("id")
    is_valid_id = isinstance(number, str) or (type(number) is int and number in _INT64)
    if data.get("jsonrpc") != "2.0":
        return "not a JSON-RPC 2.0 message"
    if "method" in data:
        if not isinstance(data["method"], str) or not isinstance(data.get("params"), dict | None):
            return "not a JSON-RPC 2.0 message"
        if "id" in data and not is_valid_id:
            return "an id is a string or an integer of at most 64 bits"
        return None
    error = data.get("error")
    if isinstance(error, dict):
        is_valid = type(error.get("code")) is int and isinstance(error.get("message"), str)
        return None if is_valid and (is_valid_id or number is None) else "not a JSON-RPC 2.0 message"
    is_response = "error" not in data and isinstance(data.get("result"), dict) and is_valid_id
    return None if is_response else "not a JSON-RPC 2.0 message"


class DuplicateName(ValueError):
    """A name occurs twice in one object. Another reader of the message may use the other value."""


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise DuplicateName(name)
            seen.add(name)
    return data


_STRICT = json.JSONDecoder(object_pairs_hook=_reject_duplicates)
_NAMED = json.JSONDecoder(object_pairs_hook=lambda pairs: [name for name, _ in pairs])
_MEMBERS = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})
_ID_TYPES = (int, str)
_REQUEST_MEMBERS = {"jsonrpc", "id", "method", "params"}
_USUAL_PARAMS = frozenset({"_meta", "name", "arguments", "cursor", "uri"})


def _find_ambiguity(data: dict[str, Any]) -> str | None:
    """Return the reason why other readers could understand a message differently, such as readers that ignore case."""
    if not _MEMBERS.issuperset(data):
        for name in data:
            if name not in _MEMBERS and name.lower() in _MEMBERS:
                return f"{name.lower()!r} has to be in lower case"
    if "method" in data and ("result" in data or "error" in data):
        return "a message cannot be both a request and a response"
    params = data.get("params")
    # This is the usual case, and the cheapest check.
    if not isinstance(params, dict) or "".join(params).islower():
        return None
    return None if len({name.lower() for name in params}) == len(params) else "names in params differ only in case"


def _has_invalid_token(data: dict[str, Any]) -> bool:
    """Whether a request has an invalid progress token."""
    params = data.get("params")
    meta = params.get("_meta") if isinstance(params, dict) and "id" in data else None
    token = meta.get("progressToken", 0) if isinstance(meta, dict) else 0
    return isinstance(token, bool) or not isinstance(token, str | int)


def _get_request_id(data: dict[str, Any]) -> str | int | None:
    """Return the id of a malformed request, if it has a valid one. The id of a response is an id of this side."""
    is_response = "method" not in data and ("result" in data or "error" in data)
    number = None if is_response else data.get("id")
    return number if isinstance(number, str) or (type(number) is int and number in _INT64) else None


def format_error(request: str | int | None, code: int, message: str) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "id": request, "error": {"code": code, "message": message}}) + b"\n"


def format_invalid(request: str | int | None, problem: str) -> bytes:
    return format_error(request, INVALID_REQUEST, f"Invalid Request: {problem}")


def dump_message(message: Message) -> bytes:
    """Return a message as a line. Never raises: instead of an invalid response an error is sent, or else nothing."""
    try:
        # The copy has the size of the line, while the bytes of orjson occupy up to twice as much as long as they live.
        return orjson.dumps(message) + b"\n"
    except TypeError:
        # The message has integers of more than 64 bits, or cannot be written.
        pass
    try:
        return dump_json(message) + b"\n"
    except (TypeError, ValueError, RecursionError):
        if "method" in message:
            logger.warning("a message that cannot be written as JSON is dropped: %s", message["method"])
            return b""
        return format_error(message["id"], INTERNAL_ERROR, "Internal error: the result cannot be written as JSON")
