"""An MCP server over stdio in plain Python whose tool returns the result in its argument: `result_server.py ERA`.

Its resource and prompt contain the same embedded resource. ERA is handshake or stateless.
"""

from __future__ import annotations

import json
import sys
from typing import Any

Json = dict[str, Any]
INFO = {"name": "results", "version": "1"}
RESOURCE = {"uri": "note://one", "text": "the note", "mimeType": "text/plain", "_meta": {"example.com/inner": 1}}
EMBEDDED = {"type": "resource", "resource": RESOURCE, "_meta": {"example.com/outer": 2}}
LISTS: Json = {
    "tools/list": {"tools": [{"name": "repeat", "inputSchema": {"type": "object"}}]},
    "resources/list": {"resources": [{"uri": "note://one", "name": "one"}]},
    "prompts/list": {"prompts": [{"name": "greet"}]},
    "resources/templates/list": {"resourceTemplates": []},
}


def make_result(method: str, params: Json, era: str) -> Json | None:
    """Return the result of a request; None if its method is unknown."""
    offered: Json = {"tools": {}, "resources": {}, "prompts": {}}
    if method == "initialize" and era == "handshake":
        return {"protocolVersion": params["protocolVersion"], "capabilities": offered, "serverInfo": INFO}
    if method == "server/discover" and era == "stateless":
        meta = {"io.modelcontextprotocol/serverInfo": INFO}
        return {"supportedVersions": ["2026-07-28"], "capabilities": offered, "_meta": meta, "resultType": "complete"}
    results: Json = {
        **LISTS,
        "tools/call": (params.get("arguments") or {}).get("result"),
        "resources/read": {"contents": [RESOURCE]},
        "prompts/get": {"messages": [{"role": "user", "content": EMBEDDED}]},
    }
    result: Json | None = results.get(method)
    return {**result, "resultType": "complete"} if result is not None and era == "stateless" else result


def main() -> None:
    """Serve until the end of the input."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        result = make_result(message["method"], message.get("params") or {}, sys.argv[1])
        error = {"error": {"code": -32601, "message": "Method not found"}}
        reply = {"jsonrpc": "2.0", "id": message["id"], **(error if result is None else {"result": result})}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
