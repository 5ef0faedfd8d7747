"""The source of tools from Xaibo. It serves unchanged tool providers, and whole agents as tools."""

from mcp_bridge._integrations.xaibo.source.source import XaiboSource

__all__ = ["XaiboSource"]
