"""MCP clients: their files, the shape of an entry in them, and how one entry is added and removed."""
