"""Reads JSON-RPC messages from the data of servers, which may be anything.

What cannot be read is repaired or dropped, and logged. If it was the response to a request, the request fails at once
instead of waiting for its time limit.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mcp_bridge._contracts.jsonrpc import CONNECTION_CLOSED, INTERNAL_ERROR, REQUEST_TIMEOUT, RpcError
from mcp_bridge._json_schema.size_limits import MAX_VALUES, has_too_many_values
from mcp_bridge._protocol.peer.connection import Message, make_error
from mcp_bridge._protocol.peer.json_lines import BYTE_ORDER_MARK, find_invalid_member, repair_json
from mcp_bridge._runtime.exact_json import load_json
from mcp_bridge._runtime.token_bucket import TokenBucket

logger = logging.getLogger("mcp_bridge.upstream")

Receiver = Callable[[Message, Any], bool]
"""Receives a message. The second argument is the id of the request on whose stream it came, or None if that is unknown.

Returns False for a response that no request expects.
"""
MAX_MESSAGE = 32 * 1024 * 1024
"""The maximum number of bytes of a message. Larger ones are dropped."""
NOTIFICATION_RATE, NOTIFICATION_BURST = 2_000, 10_000
"""How many notifications and requests of a server are read: per second on average, and in one burst. Others wait."""
NOT_RECEIVED = -32099
"""The error code of the bridge for a request that did not reach the server, or that the server rejected with the whole
session. It can be sent again."""
INVALID_RESPONSE = -32098
"""The error code of the bridge for a request to which the server sent something else than a valid response."""
_OWN_CODES = frozenset({CONNECTION_CLOSED, INVALID_RESPONSE, NOT_RECEIVED, REQUEST_TIMEOUT})
_VERSION = rb'\s*"jsonrpc"\s*:\s*"2\.0"\s*'
_NUMBER = rb'\s*"id"\s*:\s*"?(?P<id>\d{1,15})"?\s*'
_FRAGMENT = 128
"""The number of bytes at the start and at the end of a message in which its id is searched."""
_FIRST_MEMBERS = re.compile(rb"\s*\{(?:" + _VERSION + rb",)?" + _NUMBER + rb',\s*"(?:result|error)"')
_LAST_MEMBERS = re.compile(rb'[\]}"],(?:' + _VERSION + rb",)?" + _NUMBER + rb"(?:," + _VERSION + rb")?\}\s*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedFault:
    """Invalid data of a server. Sessions only log it, but `mcp-bridge doctor` reports it.

    Attributes:
        problem: Why it is invalid.
        data: The data, if it is not too long.
        is_object: Whether it is a JSON object.
        status: The HTTP status of a response without a message.
    """

    problem: str
    data: bytes = b""
    is_object: bool = False
    status: int = 0


FaultListener = Callable[[ReceivedFault], None]


class MessageReader:
    """Reads the data of one server.

    `label` is the name of the server in the log, without secrets. If there is `on_fault`, it gets all faults instead of
    the log.

    Attributes:
        budget: The limit for the rate of messages. Everything but responses is charged to it. A caller that gets an
            unexpected response charges that itself.
    """

    def __init__(self, label: str, on_fault: FaultListener | None = None) -> None:
        self._label = label
        self._on_fault = on_fault
        self._rejected = self._repaired = 0
        self.budget = TokenBucket(rate=NOTIFICATION_RATE, burst=NOTIFICATION_BURST)

    def read_message(self, data: bytes | None) -> Message | None:
        """Return the message in the data, or None if there is none. The data is None if it was too long to be kept.

        Text that is not JSON is repaired (`repair_json`). An invalid response becomes an error response, so its request
        does not wait any longer. Both are logged.
        """
        message: Message | None = None
        request_id: Any = None
        fault = "is malformed"
        if data is None:
            problem: str | None = f"it has more than {MAX_MESSAGE} bytes"
        elif has_too_many_values(data):
            problem, fault = f"it has more than {MAX_VALUES} values", "is too large"
            request_id = find_request((data[:_FRAGMENT], data[-_FRAGMENT:]))
            data = None
        else:
            message = self._parse_object(data)
            if message is None:
                problem = "it is not a JSON object"
                request_id = find_request((data[:_FRAGMENT], data[-_FRAGMENT:]))
            else:
                problem = find_invalid_member(message)
        if message is None or "method" in message:
            self.budget.charge(1)
        else:
            request_id = message.get("id")
        if message is not None and not problem:
            # A server means something else by the codes that the bridge uses itself. Many use -32000.
            if "error" in message and message["error"]["code"] in _OWN_CODES:
                message["error"]["code"] = INTERNAL_ERROR
            return message
        self._reject(ReceivedFault(problem=problem or "", data=data or b"", is_object=message is not None))
        # A bool is an int in Python, but not an id.
        if type(request_id) is int or isinstance(request_id, str):
            return make_failure(request_id, f"the server's response {fault}: {problem}")
        return None

    def _parse_object(self, data: bytes) -> Message | None:
        """Return the JSON object in the data, repaired if necessary, or None if there is none."""
        try:
            message = load_json(data.removeprefix(BYTE_ORDER_MARK))
        except ValueError as error:
            message = repair_json(data)
            if self._on_fault is not None:
                self._on_fault(ReceivedFault(problem=f"it is not JSON: {error}", data=data))
            elif isinstance(message, dict):
                self._log_repair(error)
        if not isinstance(message, dict):
            return None
        return message

    def _log_repair(self, error: ValueError) -> None:
        """Log the first, second, fourth, eighth ... repaired message."""
        self._repaired += 1
        if self._repaired.bit_count() == 1:
            text = (
                "%s sent a message that is not JSON (%d until now): %s. Characters in it were replaced, and numbers "
                "that JSON does not have became null"
            )
            logger.warning(text, self._label, self._repaired, error)

    def _reject(self, fault: ReceivedFault) -> None:
        """Report dropped data. The log gets the 1st, 2nd, 4th, 8th ..., because there may be very many."""
        if self._on_fault is not None:
            self._on_fault(fault)
            return
        self._rejected += 1
        if self._rejected.bit_count() == 1:
            text = "%s sent something that is not a message, which was dropped (%d until now): %s"
            logger.warning(text, self._label, self._rejected, fault.problem)


def find_request(fragments: tuple[bytes, bytes]) -> int | None:
    """Find the id of an unreadable response in its first and last bytes. Return None if it is unclear.

    Most servers write the id next to `jsonrpc`, at the start or at the end of the message.
    """
    start, end = fragments
    match = _FIRST_MEMBERS.match(start)
    # With a method, the message is a request of the server, and its id is not one of the bridge's.
    if match is None and b'"method"' not in start + end:
        match = _LAST_MEMBERS.search(end)
    if match is None:
        return None
    return int(match["id"])


def make_failure(request_id: int | str, problem: str, code: int = INVALID_RESPONSE) -> Message:
    """Return an error response in place of the valid response that a request did not get."""
    return make_error(request_id, RpcError(code, problem))
