"""The one place where the version and the distribution's name stand."""

__version__ = "0.1.0"
DISTRIBUTION = "mcp-tool-bridge"
