"""An MCP server over stdio with the offer of a JSON file. It reports each change of the file.

`scripted_server.py FILE`: the file has the lists `tools`, `resources`, `resourceTemplates`, `prompts`, and perhaps
`instructions` and `structured`, the structured content of each result. A call returns its parameters and the server's
environment, and a resource its URI.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

FILE = Path(sys.argv[1])
LISTS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def respond(request: dict[str, Any]) -> None:
    method, offer = request["method"], json.loads(FILE.read_text())
    if method == "initialize":
        capabilities = {"tools": {"listChanged": True}, "resources": {}, "prompts": {}}
        info = {"name": "scripted", "version": "1"}
        result = {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": info}
        result |= {"instructions": offer["instructions"]} if "instructions" in offer else {}
    elif method in LISTS:
        result = {LISTS[method]: offer.get(LISTS[method], [])}
    elif method == "resources/read":
        uri = request["params"]["uri"]
        result = {"contents": [{"uri": uri, "text": uri}]}
    elif method == "tools/call":
        values = {"params": request["params"], "env": dict(os.environ)}
        result = {"content": [{"type": "text", "text": json.dumps(values)}]}
        result |= {"structuredContent": offer["structured"]} if "structured" in offer else {}
    else:
        send({"id": request["id"], "error": {"code": -32601, "message": "unknown"}})
        return
    send({"id": request["id"], "result": result})


def report_changes() -> None:
    last_change = FILE.stat().st_mtime_ns
    while True:
        time.sleep(0.02)
        if (modified := FILE.stat().st_mtime_ns) != last_change:
            last_change = modified
            send({"method": "notifications/tools/list_changed"})


threading.Thread(target=report_changes, daemon=True).start()
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        respond(message)
