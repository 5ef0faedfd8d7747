"""Parses and writes JSON-RPC messages as lines of JSON (MCP, transports, "stdio").

Every transport parses with `parse_message`, so all of them reject the same messages. A message is rejected if another
program, such as a gateway in front of the bridge, could read it differently: duplicate names, names that differ only in
case, or numbers that lose digits. `_check_members` is the complete check, and `_is_usual_request` a fast one for the
requests of most clients.
"""

from __future__ import annotations

import json
import logging
import math
import re
from typing import Any

import orjson

from mcp_bridge._contracts.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR
from mcp_bridge._json_schema.size_limits import SizeLimits
from mcp_bridge._protocol.peer.connection import Message
from mcp_bridge._runtime.exact_json import INT64, STRICT, DuplicateName, dump_json, has_long_digits, load_json
from mcp_bridge._runtime.line_splitter import MAX_LINE

logger = logging.getLogger("mcp_bridge.stdio")

MAX_REPAIRED = 256 * 1024
"""The maximum number of bytes of an invalid text that Python parses, which takes up to 0.1 seconds.

In a larger text, only bytes outside of UTF-8 and halves of surrogate pairs are replaced.
"""
REPAIR_LIMITS = SizeLimits(depth=1024, nodes=MAX_REPAIRED)
"""Limits for the value of a repaired text: as many levels as orjson reads, and no limit for the number of values."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""The bytes that PowerShell and .NET may write before the first line."""
_ESCAPE = re.compile(rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<half>u[dD][89a-fA-F]..)|.)", re.DOTALL)
"""An escape in a JSON string: a surrogate pair, `half` of one, or any other escape."""


def parse_message(line: bytes | None) -> Message | bytes:
    """Return a line as a valid message, or an error response: -32700 for invalid JSON, -32600 otherwise.

    None is an overlong line.
    """
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
    if not _is_exact(data, line):
        # orjson keeps the last of two equal names, and reads integers of more than 64 bits as floats. So the slower
        # `STRICT` has to read the line again.
        try:
            data = STRICT.decode(line.decode())
        except DuplicateName as duplicate:
            request_id = _get_request_id(data)
            # Of two ids, neither is certain.
            if _NAME_LISTER.decode(line.decode()).count("id") != 1:
                request_id = None
            return format_invalid(request_id, f"{str(duplicate)[:80]!r} occurs twice in an object")
        except (ValueError, RecursionError):
            return format_invalid(_get_request_id(data), "a message is nested too deep")
    message: Message = data
    return message if _is_usual_request(message) else _check_members(message)


def _is_exact(data: Any, line: bytes) -> bool:
    """Whether the value that orjson has read from the line certainly has all its names and digits."""
    try:
        written = orjson.dumps(data)
    except TypeError:
        # The value is deeper than orjson can write.
        return False
    if written == line:
        return True
    # Clients in Python write spaces and escapes. Each name has a colon, so a lost name shows in their number. Only an
    # escaped colon could hide this.
    return written.count(b":") == line.count(b":") and rb"\u003" not in line and not has_long_digits(line)


def repair_json(data: bytes) -> Any:
    """Parse invalid JSON with a clear meaning. Return None if this is impossible.

    Bytes outside of UTF-8 and halves of surrogate pairs are replaced, NaN and infinities become null, and control
    characters may occur without an escape.
    """
    line = _repair_line(data.decode(errors="replace").encode())
    try:
        return load_json(line)
    except ValueError:
        if len(line) > MAX_REPAIRED:
            return None
    try:
        value = _LENIENT.decode(line.decode())
    except (ValueError, RecursionError):
        return None
    # The standard library reads fewer levels than orjson until Python 3.11, and far more since Python 3.12.
    return value if REPAIR_LIMITS.describe_excess(value) is None else None


def _repair_line(line: bytes) -> bytes:
    """Return a line without a byte order mark, and with U+FFFD for halves of surrogate pairs.

    Programs in JavaScript write such halves when they truncate a text inside an emoji.
    """

    def replace_half(escape: re.Match[bytes]) -> bytes:
        return rb"\ufffd" if escape["half"] else escape[0]

    return _ESCAPE.sub(replace_half, line.removeprefix(BYTE_ORDER_MARK))


def _reject_line(line: bytes, error: ValueError) -> Message | bytes:
    """Return the error for an invalid line, under the id of its request if it has one.

    An invalid response is repaired and returned instead. A request is not, because its tool would receive other
    arguments than the client has sent.
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
    """Whether a message is a usual request, for which no complete check is necessary.

    It has all members that `_check_members` would check in their usual form, and only usual params, so that no names
    can differ only in case.
    """
    if data.keys() != _REQUEST_MEMBERS or data["jsonrpc"] != "2.0":
        return False
    params, request_id = data["params"], data["id"]
    if type(params) is not dict or not _USUAL_PARAMS.issuperset(params):
        return False
    meta = params.get("_meta")
    if meta is not None and (type(meta) is not dict or type(meta.get("progressToken", 0)) not in (int, str)):
        return False
    is_valid_id = type(request_id) is str or (type(request_id) is int and request_id in INT64)
    return is_valid_id and type(data["method"]) is str


def _is_id(value: Any) -> bool:
    return isinstance(value, str) or (type(value) is int and value in INT64)


def _check_members(data: dict[str, Any]) -> Message | bytes:
    """Return an object if it is a valid message, or an error response."""
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
    message_id = data.get("id")
    error = data.get("error")
    has_valid_id = _is_id(message_id)
    if "method" in data:
        is_valid = isinstance(data["method"], str) and isinstance(data.get("params"), dict | None)
    elif isinstance(error, dict):
        is_valid = type(error.get("code")) is int and isinstance(error.get("message"), str)
        # The error about a request with an unreadable id has the id null.
        is_valid = is_valid and (has_valid_id or message_id is None)
    else:
        is_valid = "error" not in data and isinstance(data.get("result"), dict) and has_valid_id
    if not is_valid or data.get("jsonrpc") != "2.0":
        return "not a JSON-RPC 2.0 message"
    if "method" in data and "id" in data and not has_valid_id:
        return "an id is a string or an integer of at most 64 bits"
    return None


_NAME_LISTER = json.JSONDecoder(object_pairs_hook=lambda pairs: [name for name, _ in pairs])
"""Decodes an object to the list of its names, with duplicates."""
_MEMBERS = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})
_REQUEST_MEMBERS = {"jsonrpc", "id", "method", "params"}
_USUAL_PARAMS = frozenset({"_meta", "name", "arguments", "cursor", "uri"})


def _find_ambiguity(data: dict[str, Any]) -> str | None:
    """Return why other programs could read a message differently, such as without regard to case, or None."""
    if not _MEMBERS.issuperset(data):
        for name in data:
            if name not in _MEMBERS and name.lower() in _MEMBERS:
                return f"{name.lower()!r} has to be in lower case"
    if "method" in data and ("result" in data or "error" in data):
        return "a message cannot be both a request and a response"
    params = data.get("params")
    # Names that are all in lower case cannot differ only in case. This check of the usual case is the cheapest.
    if not isinstance(params, dict) or "".join(params).islower():
        return None
    if len({name.lower() for name in params}) < len(params):
        return "names in params differ only in case"
    return None


def _get_request_id(data: dict[str, Any]) -> str | int | None:
    """Return the id of a malformed request, or None if it has no valid one.

    For a response it is None too, because that has an id of this side.
    """
    is_response = "method" not in data and ("result" in data or "error" in data)
    if is_response or not _is_id(data.get("id")):
        return None
    request_id: str | int = data["id"]
    return request_id


def format_error(request_id: str | int | None, code: int, message: str) -> bytes:
    """Return an error response as a line."""
    return orjson.dumps({"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}) + b"\n"


def format_invalid(request_id: str | int | None, problem: str) -> bytes:
    """Return the error response for an invalid request as a line."""
    return format_error(request_id, INVALID_REQUEST, f"Invalid Request: {problem}")


def dump_message(message: Message) -> bytes:
    """Return a message as a line. Never raises.

    An unwritable response becomes an error response. Any other such message becomes nothing.
    """
    try:
        # Appending the newline copies the line. The copy has exactly its size, and bytes of orjson up to twice as much,
        # which would stay in memory in the event log of a session.
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
