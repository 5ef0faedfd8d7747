"""Xaibo's tool providers, unchanged, as a source; and whole Xaibo agents as tools."""

from mcp_bridge.sources.xaibo.source import XaiboSource

__all__ = ["XaiboSource"]
