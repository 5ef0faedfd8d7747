"""Amplifier modules as a source: their tools are published unchanged, and their hooks govern every call."""

from mcp_bridge._integrations.amplifier.source.source import AmplifierSource

__all__ = ["AmplifierSource"]
