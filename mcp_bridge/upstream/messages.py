"""Reads what servers send, which may be anything, as JSON-RPC messages."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from typing import Any

import orjson

from mcp_bridge.contracts.jsonrpc import CONNECTION_CLOSED, INTERNAL_ERROR, REQUEST_TIMEOUT, RpcError
from mcp_bridge.peer.incoming import Message, make_error
from mcp_bridge.peer.json_lines import find_invalid_member
from mcp_bridge.runtime.token_bucket import TokenBucket
from mcp_bridge.schema.size_limits import MAX_VALUES, has_too_many_values

logger = logging.getLogger("mcp_bridge.upstream")

Receiver = Callable[[Message, Any], bool]
"""Receives a message, and the id of the request on whose stream it came, or None where that is unknown.

Returns False for a response that is not expected.
"""
MAX_MESSAGE = 32 * 1024 * 1024
"""The largest message of a server in bytes. Larger ones are dropped."""
MAX_REPAIRED = 256 * 1024
"""The largest message in bytes that is repaired if it is not JSON, which takes up to 0.1 seconds.

In larger ones, only bytes that are not UTF-8 are replaced.
"""
_FRAGMENT = 1024
"""The bytes at both ends of a message in which its id is looked for."""
NOTIFICATION_RATE, NOTIFICATION_BURST = 2_000, 10_000
"""The rate per second and the burst of notifications and requests of a server that are read. Further ones wait."""
NOT_RECEIVED = -32099
"""The code of a request that did not reach the server, or that it rejected with the session. It can be sent again."""
_OWN_CODES = frozenset({CONNECTION_CLOSED, NOT_RECEIVED, REQUEST_TIMEOUT})
_VERSION = rb'\s*"jsonrpc"\s*:\s*"2\.0"\s*'
_NUMBER = rb'\s*"id"\s*:\s*(?P<id>\d{1,15})\s*'
_FIRST_MEMBERS = re.compile(rb"\s*\{(?:" + _VERSION + rb",)?" + _NUMBER + rb",")
_LAST_MEMBERS = re.compile(rb'[\]}"],(?:' + _VERSION + rb",)?" + _NUMBER + rb"(?:," + _VERSION + rb")?\}\s*$")


class MessageReader:
    """Reads what one server sends. `label` names it in the log, without secrets.

    Attributes:
        budget: Everything is charged to it, except expected responses.
    """

    def __init__(self, label: str) -> None:
        self._label = label
        self._rejected = 0
        self.budget = TokenBucket(rate=NOTIFICATION_RATE, burst=NOTIFICATION_BURST)

    def read_message(self, data: bytes | None) -> Message | None:
        """Return what the server sent as a message; None, which is logged, if it is none.

        Bytes that are not UTF-8 and halves of surrogate pairs are replaced, and NaN becomes null. None means that the
        data was too long. A response that is invalid becomes an error, so that its request does not wait any longer.
        """
        if data is not None and has_too_many_values(data):
            return self._reject_values(data)
        message = None if data is None else _parse_object(data)
        if data is None:
            problem: str | None = f"it has more than {MAX_MESSAGE} bytes"
        else:
            problem = "it is not a JSON object" if message is None else find_invalid_member(message)
        if message is None or "method" in message:
            self.budget.charge(1)
        if not problem:
            return _replace_own_code(message) if message is not None and "error" in message else message
        self._log_rejection(problem)
        if message is not None and "method" not in message and type(number := message.get("id")) is int:
            return make_failure(number, "the server's response is malformed")
        return None

    def _reject_values(self, data: bytes) -> Message | None:
        problem = f"it has more than {MAX_VALUES} values"
        self._log_rejection(problem)
        number = find_request((data[:_FRAGMENT], data[-_FRAGMENT:]))
        if number is None:
            self.budget.charge(1)
            return None
        return make_failure(number, f"the server's response is too large: {problem}")

    def _log_rejection(self, problem: str) -> None:
        """Log the first, second, fourth, eighth ... message that is dropped: a server may send nothing else."""
        self._rejected += 1
        if self._rejected.bit_count() == 1:
            text = "%s sent something that is not a message, which was dropped (%d until now): %s"
            logger.warning(text, self._label, self._rejected, problem)


def _replace_own_code(response: Message) -> Message:
    """Return the error response of a server without a code that means something else here: many servers use -32000."""
    error = response["error"]
    return {**response, "error": {**error, "code": INTERNAL_ERROR}} if error["code"] in _OWN_CODES else response


def _parse_object(data: bytes) -> Message | None:
    try:
        message = orjson.loads(data)
    except ValueError:
        message = _repair_json(data)
    return message if isinstance(message, dict) else None


def _repair_json(data: bytes) -> Any:
    """Parse JSON with bytes that are not UTF-8, halves of surrogate pairs, or NaN and Infinity.

    Programs in JavaScript write such halves when they truncate a text inside an emoji, those in Python NaN.
    """
    text = data.decode(errors="replace")
    try:
        if len(data) > MAX_REPAIRED:
            return orjson.loads(text)
        text = json.dumps(json.loads(text, parse_constant=lambda name: None), ensure_ascii=False)
        return orjson.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    except (ValueError, RecursionError):
        return None


def find_request(fragments: tuple[bytes, bytes]) -> int | None:
    """Return the request to which a message was the response, by its first and last bytes; None if that is unclear."""
    beginning, end = fragments
    found = _FIRST_MEMBERS.match(beginning) or _LAST_MEMBERS.search(end)
    return int(found["id"]) if found else None


def make_failure(number: int, problem: str, code: int = INTERNAL_ERROR) -> Message:
    """Return an error response to a request that will get no valid one."""
    return make_error(number, RpcError(code, problem))
