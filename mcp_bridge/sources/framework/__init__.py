"""Tools of objects of other frameworks."""

from mcp_bridge.sources.framework.source import FrameworkSource

__all__ = ["FrameworkSource"]
