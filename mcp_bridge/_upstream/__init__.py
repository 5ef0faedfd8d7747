"""Connections to other MCP servers, as their client."""
