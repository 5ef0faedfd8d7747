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
from mcp_bridge._runtime.exact_json import INT64, STRICT, DuplicateName, dump_json, load_json
from mcp_bridge._runtime.line_splitter import MAX_LINE

logger = logging.getLogger("mcp_bridge.stdio")

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
    data: Any
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
            data = STRICT.decode(line.decode())
        except DuplicateName as duplicate:
            request_id = _get_request_id(data)
            if _NAMES.decode(line.decode()).count("id") != 1:
                request_id = None
            return format_invalid(request_id, f"{str(duplicate)[:80]!r} occurs twice in an object")
        except (ValueError, RecursionError):
            return format_invalid(_get_request_id(data), "a message is nested too deep")
    message: Message = data
    return message if _is_usual_request(message) else _check_members(message)


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
    return _ESCAPE.sub(lambda escape: rb"\ufffd" if escape["half"] else escape[0], line.removeprefix(BYTE_ORDER_MARK))


def _reject_line(line: bytes, error: ValueError) -> Message | bytes:
    """Return the error for an invalid line, under the id of its request. A response is repaired instead.

    A request is not repaired, because its tool would receive other arguments.
    """
    data = repair_json(line)
    if isinstance(data, dict) and "method" not in data and ("result" in data or "error" in data):
        return _check_members(data)
    request_id = None
    if isinstance(data, dict):
        request_id = _get_request_id(data)
    problem = f"Parse error: a message must be one JSON object in UTF-8 ({error})"
    return format_error(request_id, PARSE_ERROR, problem)


def _read_finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


_LENIENT = json.JSONDecoder(strict=False, parse_constant=lambda name: None, parse_float=_read_finite)


def _is_usual_request(data: dict[str, Any]) -> bool:
    """Whether a message is certainly a valid request for all readers. Most messages are."""
    if data.keys() != _REQUEST_MEMBERS or data["jsonrpc"] != "2.0":
        return False
    params, request_id = data["params"], data["id"]
    if type(params) is not dict or not _USUAL_PARAMS.issuperset(params):
        return False
    meta = params.get("_meta")
    if meta is not None and (type(meta) is not dict or type(meta.get("progressToken", 0)) not in _ID_TYPES):
        return False
    is_valid_id = type(request_id) is str or (type(request_id) is int and request_id in INT64)
    return is_valid_id and type(data["method"]) is str


def _is_id(value: Any) -> bool:
    return isinstance(value, str) or (type(value) is int and value in INT64)


def _check_members(data: dict[str, Any]) -> Message | bytes:
    problem = _find_ambiguity(data)
    if problem is not None:
        return format_invalid(_get_request_id(data), problem)
    params = data.get("params")
    if "id" in data and isinstance(params, dict) and isinstance(params.get("_meta"), dict):
        token = params["_meta"].get("progressToken", 0)
        if isinstance(token, bool) or not isinstance(token, str | int):
            problem = "Invalid params: a progressToken is a string or an integer"
            return format_error(_get_request_id(data), INVALID_PARAMS, problem)
    problem = find_invalid_member(data)
    if problem is not None:
        return format_invalid(_get_request_id(data), problem)
    return data


def find_invalid_member(data: dict[str, Any]) -> str | None:
    """Return why an object is not a message of JSON-RPC 2.0 (sections 4 and 5), or None."""
    message_id, error = data.get("id"), data.get("error")
    if "method" in data:
        is_valid = isinstance(data["method"], str) and isinstance(data.get("params"), dict | None)
        if is_valid and "id" in data and not _is_id(message_id) and data.get("jsonrpc") == "2.0":
            return "an id is a string or an integer of at most 64 bits"
    elif isinstance(error, dict):
        is_valid = type(error.get("code")) is int and isinstance(error.get("message"), str)
        is_valid = is_valid and (message_id is None or _is_id(message_id))
    else:
        is_valid = "error" not in data and isinstance(data.get("result"), dict) and _is_id(message_id)
    if is_valid and data.get("jsonrpc") == "2.0":
        return None
    return "not a JSON-RPC 2.0 message"


_NAMES = json.JSONDecoder(object_pairs_hook=lambda pairs: [name for name, _ in pairs])
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
    if len({name.lower() for name in params}) < len(params):
        return "names in params differ only in case"
    return None


def _get_request_id(data: dict[str, Any]) -> str | int | None:
    """Return the id of a malformed request, if it has a valid one. The id of a response is an id of this side."""
    is_response = "method" not in data and ("result" in data or "error" in data)
    if is_response or not _is_id(data.get("id")):
        return None
    request_id: str | int = data["id"]
    return request_id


def format_error(request_id: str | int | None, code: int, message: str) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}) + b"\n"


def format_invalid(request_id: str | int | None, problem: str) -> bytes:
    return format_error(request_id, INVALID_REQUEST, f"Invalid Request: {problem}")


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
