"""The version and the name of the distribution, defined in one place."""

__version__ = "0.1.0"
DISTRIBUTION = "mcp-tool-bridge"
