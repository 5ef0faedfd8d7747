"""Reads JSON-RPC messages in the data of servers, which may be anything."""

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
"""Receives a message, and the id of the request on whose stream it came, or None where that is unknown.

Returns False for a response that is not expected.
"""
MAX_MESSAGE = 32 * 1024 * 1024
"""The largest message of a server in bytes. Larger ones are dropped."""
NOTIFICATION_RATE, NOTIFICATION_BURST = 2_000, 10_000
"""The rate per second and the burst of notifications and requests of a server that are read. Further ones wait."""
NOT_RECEIVED = -32099
"""The code of a request that did not reach the server, or that it rejected with the session. It can be sent again."""
INVALID_RESPONSE = -32098
"""The code of a request to which the server sent something else than a valid response."""
_OWN_CODES = frozenset({CONNECTION_CLOSED, INVALID_RESPONSE, NOT_RECEIVED, REQUEST_TIMEOUT})
_VERSION = rb'\s*"jsonrpc"\s*:\s*"2\.0"\s*'
_NUMBER = rb'\s*"id"\s*:\s*"?(?P<id>\d{1,15})"?\s*'
_ENDS = 128
"""The bytes at the beginning and at the end of a message in which its id is searched."""
_FIRST_MEMBERS = re.compile(rb"\s*\{(?:" + _VERSION + rb",)?" + _NUMBER + rb',\s*"(?:result|error)"')
_LAST_MEMBERS = re.compile(rb'[\]}"],(?:' + _VERSION + rb",)?" + _NUMBER + rb"(?:," + _VERSION + rb")?\}\s*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedFault:
    """Data of a server that is no valid message. Sessions tolerate it; `doctor` reports it.

    Attributes:
        problem: Why it is invalid.
        data: The data, if it is not too long.
        is_object: Whether it is an object of JSON.
        status: That of a response over HTTP without a message.
    """

    problem: str
    data: bytes = b""
    is_object: bool = False
    status: int = 0


FaultListener = Callable[[ReceivedFault], None]


class MessageReader:
    """Reads the data of one server. `label` names it in the log, without secrets.

    With `on_fault`, faults are reported to it instead of the log.

    Attributes:
        budget: Everything is charged to it, except expected responses.
    """

    def __init__(self, label: str, on_fault: FaultListener | None = None) -> None:
        self._label = label
        self._on_fault = on_fault
        self._rejected = self._repaired = 0
        self.budget = TokenBucket(rate=NOTIFICATION_RATE, burst=NOTIFICATION_BURST)

    def read_message(self, data: bytes | None) -> Message | None:
        """Return the message in the data, or None if there is none. Without data, it was too long.

        Text that is not JSON is repaired (`repair_json`). An invalid response becomes an error, so its request does not
        wait any longer. All of this is logged.
        """
        message: Message | None = None
        number: Any = None
        fault = "is malformed"
        if data is None:
            problem: str | None = f"it has more than {MAX_MESSAGE} bytes"
        elif has_too_many_values(data):
            problem, fault = f"it has more than {MAX_VALUES} values", "is too large"
            number = find_request((data[:_ENDS], data[-_ENDS:]))
            data = None
        else:
            message = self._parse_object(data)
            if message is None:
                problem = "it is not a JSON object"
                number = find_request((data[:_ENDS], data[-_ENDS:]))
            else:
                problem = find_invalid_member(message)
        if message is None or "method" in message:
            self.budget.charge(1)
        else:
            number = message.get("id")
        if message is not None and not problem:
            # The codes of this module mean something else if they come from a server: many use -32000.
            if "error" in message and message["error"]["code"] in _OWN_CODES:
                message["error"]["code"] = INTERNAL_ERROR
            return message
        self._reject(ReceivedFault(problem=problem or "", data=data or b"", is_object=message is not None))
        if type(number) is int or isinstance(number, str):
            return make_failure(number, f"the server's response {fault}: {problem}")
        return None

    def _parse_object(self, data: bytes) -> Message | None:
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
    """Return the id of a response by its first and last bytes, or None if it is unclear."""
    beginning, end = fragments
    match = _FIRST_MEMBERS.match(beginning)
    if match is None and b'"method"' not in beginning + end:
        match = _LAST_MEMBERS.search(end)
    if match is None:
        return None
    return int(match["id"])


def make_failure(number: int | str, problem: str, code: int = INVALID_RESPONSE) -> Message:
    """Return an error response to a request without a valid one."""
    return make_error(number, RpcError(code, problem))
