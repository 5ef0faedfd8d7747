"""Runs a client with a model that calls one tool, and prints what the model received.

`model_endpoint.py PROGRAM...` serves the chat completions API of OpenAI on this machine, and runs the program with its
address in the environment. The model calls the first tool whose name ends with `add`, and then ends the conversation.
So a client is tested without an account: whether its first request has the tools, and whether a call returns.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TIMEOUT = 240.0
ARGUMENTS = json.dumps({"a": 19, "b": 23})
SIOCSIFFLAGS, IFF_UP = 0x8914, 0x1


class Model(BaseHTTPRequestHandler):
    """The API, with responses as a stream or as one object."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: the output is the report."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        names = [tool["function"]["name"] for tool in request.get("tools", ())]
        results = [message["content"] for message in request["messages"] if message["role"] == "tool"]
        if results:
            print(f"result: {results[-1]}", flush=True)
        else:
            print(f"tools of the request: {', '.join(names)}", flush=True)
        tool = next((name for name in names if name.endswith("add")), None)
        message: dict[str, Any] = {"role": "assistant", "content": "Done."}
        if tool is not None and not results:
            call = {"index": 0, "id": "call-1", "type": "function"}
            message = {"role": "assistant", "content": None}
            message["tool_calls"] = [call | {"function": {"name": tool, "arguments": ARGUMENTS}}]
        self.send_message(message, request)

    def send_message(self, message: dict[str, Any], request: dict[str, Any]) -> None:
        reason = "tool_calls" if "tool_calls" in message else "stop"
        base = {"id": "response-1", "created": 1, "model": request["model"]}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        if not request.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": reason}
            body = base | {"object": "chat.completion", "choices": [choice], "usage": usage}
            self.send_body("application/json", json.dumps(body))
            return
        chunks = [
            {"choices": [{"index": 0, "delta": message, "finish_reason": None}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage},
        ]
        lines = [json.dumps(base | {"object": "chat.completion.chunk"} | chunk) for chunk in chunks]
        self.send_body("text/event-stream", "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"]))

    def send_body(self, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def enable_loopback() -> None:
    """Enable the loopback interface, which is off in a new network namespace. Outside of one, that changes nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control, contextlib.suppress(OSError):
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


def main(words: list[str]) -> int:
    """Run the program, print its output after the report, and return its exit code."""
    enable_loopback()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/v1"
    variables = {
        **{"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none", "OPENAI_MODEL": "test"},
        **{"COPILOT_PROVIDER_BASE_URL": url, "COPILOT_MODEL": "test", "COPILOT_OFFLINE": "true"},
    }
    process = subprocess.run(
        words,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=TIMEOUT,
        check=False,
    )
    print(process.stdout, end="", flush=True)
    return process.returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
