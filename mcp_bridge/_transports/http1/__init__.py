"""An HTTP/1.1 server without any knowledge of MCP."""
