"""The linter of tools for MCP clients, and the profiles of these clients. docs/dialects.md has an example."""

from mcp_bridge._protocol.dialects.linting import lint
from mcp_bridge._protocol.dialects.table import PROFILES

__all__ = ["PROFILES", "lint"]
