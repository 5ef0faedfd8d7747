"""Content blocks: what tools, prompts and resources return in addition to text and JSON."""

from mcp_bridge._contracts.content import Audio, Content, EmbeddedResource, Image, Message, ResourceLink, Text

__all__ = ["Audio", "Content", "EmbeddedResource", "Image", "Message", "ResourceLink", "Text"]
