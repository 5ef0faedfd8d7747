"""Follows the messages between a client and its shared server, so that the client does not notice a new server.

The client has initialized one server, once. If this server ends and the relay starts another, the new one has to get
into the same state. So the tracker keeps the requests for the handshake, the log level and the subscriptions that the
server has accepted, and `list_replays` returns them for the new server. The client does not get the responses to them.
Requests in flight are lost, so `lose_server` returns errors for them, and cancels the questions of the lost server.
"""

from __future__ import annotations

import json
import re
from typing import Any

from mcp_bridge._contracts.jsonrpc import CONNECTION_CLOSED

LOST_MESSAGE = "The shared server has ended before it has responded. The call may have run. Retry it."
SHUTDOWN_MESSAGE = "The bridge is shutting down."
GONE_MESSAGE = "The client has disconnected."
_SERVER_MESSAGE = re.compile(rb'\{"jsonrpc":"2\.0","id":(-?\d+|"(?:[^"\\]|\\.)*"),"(result|error|method)"')
"""The beginning of a request or response of the server, with its id. The rest, such as a long result, is not parsed."""

Id = str | int


class MessageTracker:
    """Follows the messages between a client and its servers, one line each.

    `open_requests` are the client's requests without a response, by id, with their methods.
    """

    def __init__(self) -> None:
        self.open_requests: dict[Id, str] = {}
        self._questions: set[Id] = set()
        self._accepted: dict[str, tuple[Id | None, bytes]] = {}
        """The lines for a new server with their ids. The key is the method, for subscriptions with the URI."""
        self._candidates: dict[Id, tuple[str, bytes]] = {}
        """Requests in flight that are accepted once the server responds with a result, with their keys."""
        self._replayed: set[Id] = set()

    def accept_client_line(self, line: bytes) -> bool:
        """Record a line of the client. Return False for an answer to a question of an earlier server."""
        message = _parse_line(line)
        method = message.get("method")
        request_id = _read_id(message.get("id"))
        if method is None:
            if request_id is None or not ("result" in message or "error" in message):
                # The message is invalid. The server responds with the error.
                return True
            is_expected = request_id in self._questions
            self._questions.discard(request_id)
            return is_expected
        if not isinstance(method, str):
            return True
        params = message.get("params")
        if not isinstance(params, dict):
            params = {}
        if request_id is not None:
            self.open_requests[request_id] = method
            if method in {"initialize", "logging/setLevel"}:
                self._candidates[request_id] = (method, line)
            elif method in {"resources/subscribe", "resources/unsubscribe"}:
                self._candidates[request_id] = (f"{method} {params.get('uri')}", line)
        elif method == "notifications/initialized":
            self._accepted[method] = (None, line)
        elif method == "notifications/cancelled":
            cancelled_id = _read_id(params.get("requestId"))
            if cancelled_id is not None:
                self.open_requests.pop(cancelled_id, None)
        return True

    def accept_server_line(self, line: bytes) -> bool:
        """Record a line of the server. Return False for a response to a replayed line."""
        match = _SERVER_MESSAGE.match(line)
        if match is None:
            return True
        request_id: Id = json.loads(match[1])
        if match[2] == b"method":
            self._questions.add(request_id)
            return True
        self.open_requests.pop(request_id, None)
        key, request = self._candidates.pop(request_id, ("", b""))
        if key and match[2] == b"result":
            method, _, uri = key.partition(" ")
            if method == "resources/unsubscribe":
                self._accepted.pop(f"resources/subscribe {uri}", None)
            else:
                self._accepted[key] = (request_id, request)
        is_for_client = request_id not in self._replayed
        self._replayed.discard(request_id)
        return is_for_client

    def list_replays(self) -> list[bytes]:
        """Return the first lines for a new server: the handshake, the log level and the subscriptions."""
        self._replayed = {request_id for request_id, _ in self._accepted.values() if request_id is not None}
        return [line for _, line in self._accepted.values()]

    def lose_server(self, message: str = LOST_MESSAGE) -> list[bytes]:
        """Return the lines for the client after the end of its server: errors for its requests, and cancellations."""
        lines = [make_error(request_id, message) for request_id in self.open_requests]
        for question_id in self._questions:
            lines.append(_make_cancellation({"requestId": question_id, "reason": "the shared server has ended"}))
        self.open_requests.clear()
        self._questions.clear()
        self._candidates.clear()
        self._replayed.clear()
        return lines

    def end_streams(self) -> list[bytes]:
        """Return the lines for the server at the end of the input.

        No answer can arrive any more, so they end the open questions, and the streams that would not end otherwise.
        """
        lines = [make_error(question_id, GONE_MESSAGE) for question_id in self._questions]
        self._questions.clear()
        for request_id, method in list(self.open_requests.items()):
            if method == "subscriptions/listen":
                del self.open_requests[request_id]
                lines.append(_make_cancellation({"requestId": request_id}))
        return lines


def make_error(request_id: Id, message: str) -> bytes:
    error = {"code": CONNECTION_CLOSED, "message": message}
    return _dump({"jsonrpc": "2.0", "id": request_id, "error": error})


def _make_cancellation(params: dict[str, Any]) -> bytes:
    return _dump({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})


def find_new_request(line: bytes) -> Id | None:
    """Return the id of a request for a new call, or None for any other message."""
    message = _parse_line(line)
    params = message.get("params")
    # A request with a state continues a call.
    is_continued = isinstance(params, dict) and params.get("requestState") is not None
    if is_continued or message.get("method") in {None, "ping"}:
        return None
    return _read_id(message.get("id"))


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
