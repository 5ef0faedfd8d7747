"""JSON-RPC connections, the shapes of MCP, and what clients accept."""
