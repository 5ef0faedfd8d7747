"""Xaibo's tool providers, unchanged, as a source; and whole Xaibo agents as tools."""

from mcp_bridge.xaibo.source.source import XaiboSource

__all__ = ["XaiboSource"]
