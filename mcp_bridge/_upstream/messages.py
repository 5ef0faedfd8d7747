"""Reads what servers send, which may be anything, as JSON-RPC messages."""

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
    """Something that a server sent instead of a valid message. Sessions tolerate it; `doctor` reports it.

    Attributes:
        problem: What is wrong with it.
        data: What was sent, if it was not too long.
        is_object: Whether that is an object of JSON.
        status: That of a response over HTTP without a message.
    """

    problem: str
    data: bytes = b""
    is_object: bool = False
    status: int = 0


FaultListener = Callable[[ReceivedFault], None]


class MessageReader:
    """Reads what one server sends. `label` names it in the log, without secrets.

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
        """Return what the server sent as a message; None, which is logged, if it is none.

        What is not JSON is repaired (`repair_json`), which is logged. None means that the data was too long. A response
        that is invalid becomes an error, so that its request does not wait any longer.
        """
        if data is not None and has_too_many_values(data):
            return self._reject_values(data)
        message = None if data is None else self._parse_object(data)
        if data is None:
            problem: str | None = f"it has more than {MAX_MESSAGE} bytes"
        else:
            problem = "it is not a JSON object" if message is None else find_invalid_member(message)
        if message is None or "method" in message:
            self.budget.charge(1)
        if not problem:
            return _replace_own_code(message) if message is not None and "error" in message else message
        self._reject(ReceivedFault(problem=problem, data=data or b"", is_object=message is not None))
        number = None
        if message is not None:
            number = None if "method" in message else message.get("id")
        elif data is not None:
            number = find_request((data[:_ENDS], data[-_ENDS:]))
        if type(number) is int or isinstance(number, str):
            return make_failure(number, f"the server's response is malformed: {problem}")
        return None

    def _reject_values(self, data: bytes) -> Message | None:
        problem = f"it has more than {MAX_VALUES} values"
        self._reject(ReceivedFault(problem=problem))
        number = find_request((data[:_ENDS], data[-_ENDS:]))
        if number is None:
            self.budget.charge(1)
            return None
        return make_failure(number, f"the server's response is too large: {problem}")

    def _parse_object(self, data: bytes) -> Message | None:
        try:
            message = load_json(data.removeprefix(BYTE_ORDER_MARK))
        except ValueError as error:
            message = repair_json(data)
            if self._on_fault is not None:
                self._on_fault(ReceivedFault(problem=f"it is not JSON: {error}", data=data))
            elif isinstance(message, dict):
                self._log_repair(error)
        return message if isinstance(message, dict) else None

    def _log_repair(self, error: ValueError) -> None:
        """Log the first, second, fourth, eighth ... message that is repaired."""
        self._repaired += 1
        if self._repaired.bit_count() == 1:
            text = (
                "%s sent a message that is not JSON (%d until now): %s. Characters in it were replaced, and numbers "
                "that JSON does not have became null"
            )
            logger.warning(text, self._label, self._repaired, error)

    def _reject(self, fault: ReceivedFault) -> None:
        """Report what is dropped. The log gets the 1st, 2nd, 4th, 8th ...: a server may send nothing else."""
        if self._on_fault is not None:
            self._on_fault(fault)
            return
        self._rejected += 1
        if self._rejected.bit_count() == 1:
            text = "%s sent something that is not a message, which was dropped (%d until now): %s"
            logger.warning(text, self._label, self._rejected, fault.problem)


def _replace_own_code(response: Message) -> Message:
    """Return the error response of a server without a code that means something else here: many servers use -32000."""
    error = response["error"]
    return {**response, "error": {**error, "code": INTERNAL_ERROR}} if error["code"] in _OWN_CODES else response


def find_request(fragments: tuple[bytes, bytes]) -> int | None:
    """Return the request to which a message was the response, by its first and last bytes; None if that is unclear."""
    beginning, end = fragments
    match = _FIRST_MEMBERS.match(beginning)
    if match is None and b'"method"' not in beginning + end:
        match = _LAST_MEMBERS.search(end)
    return int(match["id"]) if match else None


def make_failure(number: int | str, problem: str, code: int = INVALID_RESPONSE) -> Message:
    """Return an error response to a request that will get no valid one."""
    return make_error(number, RpcError(code, problem))
