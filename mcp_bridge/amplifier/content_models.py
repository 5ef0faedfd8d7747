"""The names of `amplifier_core.content_models`."""

from mcp_bridge._integrations.amplifier.content_models import (
    ContentBlock,
    ContentBlockType,
    TextContent,
    ThinkingContent,
    ToolCallContent,
    ToolResultContent,
)

__all__ = ["ContentBlock", "ContentBlockType", "TextContent", "ThinkingContent", "ToolCallContent", "ToolResultContent"]
