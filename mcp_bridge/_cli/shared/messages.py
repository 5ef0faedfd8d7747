"""What the relay remembers of a client's messages, so that the client survives a new server."""

from __future__ import annotations

import json
import re
from typing import Any

from mcp_bridge._contracts.jsonrpc import CONNECTION_CLOSED

LOST_MESSAGE = "The shared server has ended before it has responded. The call may have run. Retry it."
SHUTDOWN_MESSAGE = "The bridge is shutting down."
GONE_MESSAGE = "The client has disconnected."
_SERVER_MESSAGE = re.compile(rb'\{"jsonrpc":"2\.0","id":(-?\d+|"(?:[^"\\]|\\.)*"),"(result|error|method)"')
"""How messages of the server begin: requests and responses with their id. Long results are not parsed again."""

Id = str | int


class MessageTracker:
    """Follows the messages between a client and its servers, one line each.

    `open_requests` are the client's requests without a response, by id, with their methods.
    """

    def __init__(self) -> None:
        self.open_requests: dict[Id, str] = {}
        self._questions: set[Id] = set()
        self._kept: dict[str, tuple[Id | None, bytes]] = {}
        self._offered: dict[Id, tuple[str, bytes]] = {}
        self._replayed: set[Id] = set()

    def accept_client_line(self, line: bytes) -> bool:
        """Record a line of the client. Return whether it is for this server: answers to an earlier one are not."""
        message = _parse_line(line)
        method, request_id = message.get("method"), _read_id(message.get("id"))
        if method is None:
            if request_id is None or not ("result" in message or "error" in message):
                return True  # invalid: the server says why
            is_expected = request_id in self._questions
            self._questions.discard(request_id)
            return is_expected
        if not isinstance(method, str):
            return True
        params = given if isinstance(given := message.get("params"), dict) else {}
        if request_id is not None:
            self.open_requests[request_id] = method
            self._offer(request_id, method, params, line)
        elif method == "notifications/initialized":
            self._kept[method] = (None, line)
        elif method == "notifications/cancelled" and (cancelled := _read_id(params.get("requestId"))) is not None:
            self.open_requests.pop(cancelled, None)
        return True

    def accept_server_line(self, line: bytes) -> bool:
        """Record a line of the server. Return whether it is for the client: responses to what was replayed are not."""
        if (match := _SERVER_MESSAGE.match(line)) is None:
            return True
        number: Id = json.loads(match[1])
        if match[2] == b"method":
            self._questions.add(number)
            return True
        self.open_requests.pop(number, None)
        key, request = self._offered.pop(number, ("", b""))
        if key and match[2] == b"result":
            self._keep(key, number, request)
        is_for_client = number not in self._replayed
        self._replayed.discard(number)
        return is_for_client

    def list_replays(self) -> list[bytes]:
        """Return what a new server has to receive first: the handshake, the log level and the subscriptions."""
        self._replayed = {number for number, _ in self._kept.values() if number is not None}
        return [line for _, line in self._kept.values()]

    def lose_server(self, message: str = LOST_MESSAGE) -> list[bytes]:
        """Return what the client has to receive once its server has gone: errors for its requests in flight."""
        lines = [make_error(number, message) for number in self.open_requests]
        for number in self._questions:
            params = {"requestId": number, "reason": "the shared server has ended"}
            lines.append(_dump({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}))
        self.open_requests.clear()
        self._questions.clear()
        self._offered.clear()
        self._replayed.clear()
        return lines

    def end_streams(self) -> list[bytes]:
        """Return what the server has to receive once the client has gone: no answer to a question can arrive."""
        lines = [make_error(number, GONE_MESSAGE) for number in self._questions]
        self._questions.clear()
        for number, method in list(self.open_requests.items()):
            if method == "subscriptions/listen":
                del self.open_requests[number]
                params = {"requestId": number}
                lines.append(_dump({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}))
        return lines

    def _offer(self, number: Id, method: str, params: dict[str, Any], line: bytes) -> None:
        """Note a request that a new server has to receive too, once this one has accepted it."""
        if method in {"initialize", "logging/setLevel"}:
            self._offered[number] = (method, line)
        elif method in {"resources/subscribe", "resources/unsubscribe"}:
            self._offered[number] = (f"{method} {params.get('uri')}", line)

    def _keep(self, key: str, number: Id, line: bytes) -> None:
        method, _, uri = key.partition(" ")
        if method == "resources/unsubscribe":
            self._kept.pop(f"resources/subscribe {uri}", None)
        else:
            self._kept[key] = (number, line)


def make_error(number: Id, message: str) -> bytes:
    error = {"code": CONNECTION_CLOSED, "message": message}
    return _dump({"jsonrpc": "2.0", "id": number, "error": error})


def find_new_request(line: bytes) -> Id | None:
    """Return the id of a request that belongs to no call in flight, or None."""
    message = _parse_line(line)
    params = message.get("params")
    is_continued = isinstance(params, dict) and params.get("requestState") is not None
    return None if is_continued or message.get("method") in {None, "ping"} else _read_id(message.get("id"))


def _parse_line(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _read_id(value: Any) -> Id | None:
    return value if isinstance(value, str | int) and not isinstance(value, bool) else None


def _dump(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"
