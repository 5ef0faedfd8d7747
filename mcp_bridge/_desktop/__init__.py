"""MCP clients: reads their files, and adds and removes the entry of a bridge in them."""
