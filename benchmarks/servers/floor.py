"""The responses of the floor servers, which show what moving and parsing the bytes costs.

They have three methods and one hard-wired tool, and nothing else that a server needs.
"""

from benchmarks.servers.offer import ECHO, INPUT_SCHEMA, list_descriptions

INFO = {"name": "floor", "version": "1"}


class Floor:
    """Responds to parsed messages of both eras."""

    def __init__(self):
        self._tools = [
            {"name": name, "description": description, "inputSchema": INPUT_SCHEMA}
            for name, description in list_descriptions().items()
        ]

    def respond(self, message):
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
        # Results of 2026-07-28, whose requests have _meta, name their type.
        if "_meta" in params:
            result["resultType"] = "complete"
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}
