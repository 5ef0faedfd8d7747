"""A source that publishes everything that another MCP server offers."""
