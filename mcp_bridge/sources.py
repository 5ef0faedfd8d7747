"""What a source of your own publishes. docs/sources.md has an example."""

from mcp_bridge._contracts.extension import ToolSource
from mcp_bridge._contracts.offer import Offer
from mcp_bridge._contracts.prompt import PromptArgument, PromptEntry
from mcp_bridge._contracts.resource import ResourceEntry, ResourceTemplate
from mcp_bridge._contracts.tool import ToolEntry

__all__ = ["Offer", "PromptArgument", "PromptEntry", "ResourceEntry", "ResourceTemplate", "ToolEntry", "ToolSource"]
