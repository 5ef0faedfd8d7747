"""The protocol: JSON-RPC connections, the shapes of MCP as plain dicts, and the limits of clients."""
