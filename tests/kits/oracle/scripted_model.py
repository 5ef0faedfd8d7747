"""A model that makes command-line clients call tools: `python -m tests.kits.oracle.scripted_model COMMAND...`.

It listens at PORT while the command runs, for the APIs of Anthropic, Google and OpenAI. It responds to a request with
the next call of CALLS, depending on the number of results in the request, and finally with a text.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from typing import Any

Json = dict[str, Any]
PORT = 8377
CALLS: list[tuple[str, Json]] = [
    ("echo", {"text": "hi"}),
    ("add", {"a": 1, "b": 2.5}),
    ("add", {"a": "one"}),
    *(
        (name, {})
        for name in ("count", "blocks", "report", "refuse", "crash", "ask", "open_page", "roots", "change_tools")
    ),
]
USAGE = {"input_tokens": 1, "output_tokens": 1}


class ScriptedModel(BaseHTTPRequestHandler):
    """Handles one request of a client."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or "{}")
        if "contents" in body:
            events = respond_like_google(body)
        elif "input" in body:
            events = respond_like_openai(body)
        else:
            events = respond_like_anthropic(body)
        self._send(events, is_stream=body.get("stream", "stream" in self.path))

    def do_GET(self) -> None:
        self._send([{}], is_stream=False)

    def log_message(self, format: str, *args: Any) -> None:
        """Be silent."""

    def _send(self, events: list[Json], *, is_stream: bool) -> None:
        content = b"".join(_format_event(event) for event in events) if is_stream else json.dumps(events[0]).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if is_stream else "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _format_event(event: Json) -> bytes:
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event)}\n\n".encode()


def choose_call(names: Iterable[str], results: int) -> tuple[str, Json] | None:
    """Return the next call of an offered tool, by the client's name for it, or None if there is none."""
    offered = list(names)
    calls = ((name, arguments) for tool, arguments in CALLS for name in offered if re.fullmatch(rf"(.*_)?{tool}", name))
    return next(islice(calls, results, None), None)


def respond_like_anthropic(body: Json) -> list[Json]:
    """Return the events of the Messages API, or the whole message for a request without a stream."""
    blocks = [block for message in body.get("messages", []) for block in message["content"] if isinstance(block, dict)]
    results = sum(block.get("type") == "tool_result" for block in blocks)
    call = choose_call((tool["name"] for tool in body.get("tools", [])), results)
    message = {"id": f"msg_{results}", "type": "message", "role": "assistant", "model": "m", "usage": USAGE}
    if call is None:
        block: Json = {"type": "text", "text": "done"}
        delta = {"type": "text_delta", "text": "done"}
    else:
        block = {"type": "tool_use", "id": f"toolu_{results}", "name": call[0], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(call[1])}
    reason = {"stop_reason": "end_turn" if call is None else "tool_use", "stop_sequence": None}
    if not body.get("stream"):
        return [{**message, **reason, "content": [block]}]
    return [
        {"type": "message_start", "message": {**message, "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": {**block, **({"text": ""} if not call else {})}},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": reason, "usage": USAGE},
        {"type": "message_stop"},
    ]


def respond_like_google(body: Json) -> list[Json]:
    """Return the one response of generateContent."""
    results = sum("functionResponse" in block for content in body["contents"] for block in content["parts"])
    declarations = (tool for tools in body.get("tools", []) for tool in tools.get("functionDeclarations", []))
    call = choose_call((tool["name"] for tool in declarations), results)
    block: Json = {"text": "done"} if call is None else {"functionCall": {"name": call[0], "args": call[1]}}
    return [{
        "candidates": [{"content": {"role": "model", "parts": [block]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
    }]  # fmt: skip


def respond_like_openai(body: Json) -> list[Json]:
    """Return the events of the Responses API. A tool may be in a namespace."""
    results = sum(item.get("type") == "function_call_output" for item in body["input"] if isinstance(item, dict))
    spaces = {tool["name"]: space.get("name") for space in body.get("tools", []) for tool in space.get("tools", [])}
    names = [tool["name"] for tool in body.get("tools", []) if "tools" not in tool and "name" in tool]
    call = choose_call([*spaces, *names], results)
    if call is None:
        content = [{"type": "output_text", "text": "done", "annotations": []}]
        item: Json = {"type": "message", "id": "msg", "role": "assistant", "status": "completed", "content": content}
    else:
        item = {
            "type": "function_call", "id": f"fc_{results}", "call_id": f"call_{results}", "name": call[0],
            "arguments": json.dumps(call[1]), "status": "completed",
            **({"namespace": spaces[call[0]]} if call[0] in spaces else {}),
        }  # fmt: skip
    response = {"id": f"resp_{results}", "object": "response", "status": "completed", "output": [item],
                "usage": {**USAGE, "total_tokens": 2}}  # fmt: skip
    return [
        {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    ]


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", PORT), ScriptedModel)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    raise SystemExit(subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL).returncode)
