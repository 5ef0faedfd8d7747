"""A source of tools from Xaibo: tool providers without changes to them, and whole agents as tools."""

from mcp_bridge._integrations.xaibo.source.source import XaiboSource

__all__ = ["XaiboSource"]
