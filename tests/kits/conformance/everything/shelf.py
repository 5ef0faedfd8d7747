"""The only registry of this process. The other files publish here."""

from __future__ import annotations

from mcp_bridge import ToolRegistry

registry = ToolRegistry()
