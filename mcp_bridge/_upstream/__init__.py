"""Connections to upstreams, the MCP servers behind the bridge, as their client."""
