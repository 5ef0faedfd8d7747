"""The one registry of this process: what the other files publish on."""

from __future__ import annotations

from mcp_bridge import ToolRegistry

registry = ToolRegistry()
