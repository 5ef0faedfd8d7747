"""The replies of the floor servers: three methods and one hard-wired tool, nothing else that a server needs.

They show what moving and parsing the bytes costs.
"""

from benchmarks.servers.offer import ECHO, INPUT_SCHEMA, descriptions

INFO = {"name": "floor", "version": "1"}


class Floor:
    """Answers parsed messages of both eras."""

    def __init__(self):
        self._tools = [
            {"name": name, "description": text, "inputSchema": INPUT_SCHEMA} for name, text in descriptions().items()
        ]

    def reply(self, message):
        """Return the response to `message`, or None for a notification."""
        method, params = message["method"], message.get("params") or {}
        if method == "tools/call" and params["name"] == ECHO:
            result = {"content": [{"type": "text", "text": params["arguments"]["text"]}]}
        elif "id" not in message:
            return None
        elif method == "tools/list":
            result = {"tools": self._tools}
        elif method == "initialize":
            result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": INFO}
        else:
            error = {"code": -32601, "message": "Method not found"}
            return {"jsonrpc": "2.0", "id": message["id"], "error": error}
        if "_meta" in params:  # 2026-07-28
            result["resultType"] = "complete"
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}
