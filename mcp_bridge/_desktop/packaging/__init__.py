"""Exports a server as an MCP bundle, an entry of the MCP registry or a Dockerfile."""
