"""The formats by their names on the command line."""

from __future__ import annotations

from collections.abc import Mapping

from mcp_bridge.export.format import Format
from mcp_bridge.export.formats.anthropic import Anthropic
from mcp_bridge.export.formats.bedrock import Bedrock
from mcp_bridge.export.formats.gemini import Gemini
from mcp_bridge.export.formats.ollama import Ollama
from mcp_bridge.export.formats.openai_chat import OpenAIChat
from mcp_bridge.export.formats.openai_responses import OpenAIResponses

FORMATS: Mapping[str, Format] = {
    item.name: item for item in (OpenAIChat(), OpenAIResponses(), Anthropic(), Gemini(), Bedrock(), Ollama())
}
