"""A worker process that follows a list of steps, for tests of the bridge's side of the protocol of workers.

A step is a message, raw bytes (`{"raw": text, "times": count}`), or an action: exit, close, sleep or answer.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

TOOL = {
    "name": "t", "description": "", "input_schema": {"type": "object"}, "output_schema": {}, "tags": [],
    "annotations": {}, "title": None, "icons": [], "meta": {}, "context": True,
}  # fmt: skip
OFFER = {"say": "offer", "tools": [TOOL], "resources": [], "templates": [], "prompts": [], "problems": []}


def write(data: bytes) -> None:
    """Write all bytes without a buffer."""
    while data:
        data = data[os.write(1, data) :]


def send(message: Any) -> None:
    """Send a message as a line."""
    write(json.dumps(message).encode() + b"\n")


def main(steps: list[Any]) -> None:
    """Send an offer, then carry out the steps for each call. `$id` is replaced by its number."""
    sys.stdin.readline()
    if steps and steps[0] == "first":
        run(steps[1:], 0)
        # Wait until the bridge closes the pipe.
        sys.stdin.read()
    send(OFFER)
    for line in sys.stdin:
        message = json.loads(line)
        if message["do"] == "call":
            run(steps, message["id"])
    write(b"")


def run(steps: list[Any], number: int) -> None:
    """Carry out the steps."""
    for step in steps:
        if isinstance(step, dict) and "raw" in step:
            write(step["raw"].encode("latin-1") * step.get("times", 1))
        elif step == "exit":
            os._exit(3)
        elif step == "close":
            os.close(1)
        elif step == "sleep":
            time.sleep(600)
        elif step == "answer":
            result = {"success": True, "output": "fine", "error": None, "content": None, "code": None, "meta": None}
            send({"say": "result", "id": number, "result": result})
        else:
            send(json.loads(json.dumps(step).replace('"$id"', str(number))))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
