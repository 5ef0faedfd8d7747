"""The only registry of this process. The other modules register their tools, resources and prompts in it."""

from __future__ import annotations

from mcp_bridge import ToolRegistry

registry = ToolRegistry()
