"""The version and the name of the distribution, defined in one place."""

__version__ = "0.2.0"
DISTRIBUTION = "mcp-tool-bridge"
