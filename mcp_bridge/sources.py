"""Everything for a source of your own. docs/sources.md has an example."""

from mcp_bridge._contracts.prompt import PromptArgument, PromptEntry
from mcp_bridge._contracts.resource import ResourceEntry, ResourceTemplate
from mcp_bridge._contracts.source import Offer, Source
from mcp_bridge._contracts.tool import ToolEntry

__all__ = ["Offer", "PromptArgument", "PromptEntry", "ResourceEntry", "ResourceTemplate", "Source", "ToolEntry"]
