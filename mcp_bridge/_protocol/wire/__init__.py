"""MCP's data as plain JSON-ready dicts, for each protocol version: tools, results, content, names, errors."""
