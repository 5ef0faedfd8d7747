"""Tools with a result of each content type, and one that fails."""

from __future__ import annotations

import json

from samples import RED_DOT, silence
from shelf import registry

from mcp_bridge import Audio, EmbeddedResource, Image, Text, ToolError, tool
from mcp_bridge.content import Content


@tool(registry=registry)
def test_simple_text() -> str:
    """Answer with one line of text."""
    return "This is a simple text response for testing."


@tool(registry=registry)
def test_image_content() -> Image:
    """Answer with a picture."""
    return Image(RED_DOT, "image/png")


@tool(registry=registry)
def test_audio_content() -> Audio:
    """Answer with a sound."""
    return Audio(silence(), "audio/wav")


@tool(registry=registry)
def test_embedded_resource() -> EmbeddedResource:
    """Return an embedded resource."""
    return EmbeddedResource("test://embedded-resource", "This is an embedded resource content.", "text/plain")


@tool(registry=registry)
def test_multiple_content_types() -> list[Content]:
    """Return a text, a picture and a resource."""
    data = json.dumps({"test": "data", "value": 123})
    return [
        Text("Multiple content types test:"),
        Image(RED_DOT, "image/png"),
        EmbeddedResource("test://mixed-content-resource", data, "application/json"),
    ]


@tool(registry=registry)
def test_error_handling() -> str:
    """Fail, always."""
    raise ToolError("This tool intentionally returns an error for testing")
