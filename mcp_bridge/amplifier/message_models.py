"""The names of `amplifier_core.message_models`."""

from mcp_bridge._integrations.amplifier.message_models import (
    ChatRequest,
    ChatResponse,
    ImageBlock,
    Message,
    ReasoningBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolCallBlock,
    ToolResultBlock,
    ToolSpec,
    Usage,
)

__all__ = [
    "ChatRequest",
    "ChatResponse",
    "ImageBlock",
    "Message",
    "ReasoningBlock",
    "RedactedThinkingBlock",
    "TextBlock",
    "ThinkingBlock",
    "ToolCall",
    "ToolCallBlock",
    "ToolResultBlock",
    "ToolSpec",
    "Usage",
]
