"""JSON-RPC connections, the shapes of MCP, and the limits of clients."""
