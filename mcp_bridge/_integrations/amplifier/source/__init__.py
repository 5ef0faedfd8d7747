"""The source of Amplifier modules. It publishes their tools unchanged and applies their hooks to every call."""

from mcp_bridge._integrations.amplifier.source.source import AmplifierSource

__all__ = ["AmplifierSource"]
