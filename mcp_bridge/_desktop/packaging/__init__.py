"""Exports of a server: a bundle, an entry of the MCP registry, a container image."""
