"""A local HTTP server with the responses of model APIs. It checks requests with the models of the official SDK."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from select import select
from typing import Any

from anthropic.types.message_create_params import MessageCreateParamsNonStreaming, MessageCreateParamsStreaming
from pydantic import TypeAdapter


@dataclass
class Reply:
    """A response. Its body is bytes, JSON, or a list of events for a stream. An endless response never completes."""

    body: Any = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    is_endless: bool = False


USAGE = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 2}
MESSAGE: dict[str, Any] = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-5-5", "content": [],
    "stop_reason": None, "stop_sequence": None, "usage": USAGE,
}  # fmt: skip
THINKING = {"type": "thinking", "thinking": "", "signature": ""}
TOOL = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}


def build_stream(*blocks: tuple[dict[str, Any], list[dict[str, Any]]], stop: str = "end_turn") -> Reply:
    """Return a response that streams blocks. Each block comes with its deltas."""
    events: list[Any] = [{"type": "message_start", "message": MESSAGE}]
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 7}})
    return Reply([*events, {"type": "message_stop"}])


def build_text(*parts: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a block of text, with its deltas."""
    return {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in parts]


class ModelServer:
    """Sends its replies in turn. `requests` has the received bodies, `open` is the number of unanswered requests."""

    def __init__(self, replies: Sequence[Reply]) -> None:
        self.replies = list(replies)
        self.requests: list[dict[str, Any]] = []
        self.url = ""
        self.open = 0

    def handle(self, path: str, body: bytes) -> Reply:
        if not body:
            return Reply({"error": {"message": "not found"}}, 404)
        request = json.loads(body)
        if path.endswith("/messages"):
            _load_adapter(bool(request.get("stream"))).validate_python(request)
        self.requests.append(request)
        return self.respond(request)

    def respond(self, body: Mapping[str, Any]) -> Reply:
        return self.replies.pop(0)


@cache
def _load_adapter(is_stream: bool) -> TypeAdapter[Any]:
    return TypeAdapter(MessageCreateParamsStreaming if is_stream else MessageCreateParamsNonStreaming)


@contextmanager
def serve_model(*replies: Reply, model: ModelServer | None = None) -> Iterator[ModelServer]:
    """Run a server for the block."""
    model = model or ModelServer(replies)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle(self) -> None:
            # The client may have cancelled the request.
            with suppress(ConnectionError):
                super().handle()

        def do_POST(self) -> None:
            model.open += 1
            try:
                self.respond()
            finally:
                model.open -= 1

        def respond(self) -> None:
            try:
                reply = model.handle(self.path, self.rfile.read(int(self.headers.get("content-length", 0))))
            except Exception as error:
                reply = Reply({"error": {"message": f"invalid request: {error}"}}, 418)
            self.send(reply)

        do_GET = do_POST

        def send(self, reply: Reply) -> None:
            content_type = "text/event-stream" if isinstance(reply.body, list) else "application/json"
            parts = [reply.body] if isinstance(reply.body, bytes) else _encode(reply.body)
            length = sum(map(len, parts)) + reply.is_endless
            self.send_response(reply.status)
            for name, value in {"content-type": content_type, "content-length": str(length), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            # Clients read a stream in parts.
            for piece in parts:
                self.wfile.write(piece)
            if reply.is_endless:
                # The connection becomes readable when the client closes it.
                select([self.connection], [], [], 30)
                self.close_connection = True

        def log_message(self, *args: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        model.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield model
        finally:
            server.shutdown()
            thread.join()


def _encode(body: Any) -> list[bytes]:
    if not isinstance(body, list):
        return [json.dumps(body).encode()]
    lines = []
    for event in body:
        head = f"event: {event['type']}\n" if isinstance(event, dict) and "type" in event else ""
        lines.append(f"{head}data: {event if isinstance(event, str) else json.dumps(event)}\n\n".encode())
    return lines
