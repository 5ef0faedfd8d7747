"""Amplifier modules, unchanged, as a source: their tools are published, their hooks govern every call."""

from mcp_bridge.amplifier.source.source import AmplifierSource

__all__ = ["AmplifierSource"]
