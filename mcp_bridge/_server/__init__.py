"""The methods of MCP, over a registry, for clients of both eras."""
