"""The bridge as an MCP server: handlers for the SDK's kernel, listings, paging and change notices."""
