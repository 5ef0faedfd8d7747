"""A source that publishes the offer of another MCP server."""
