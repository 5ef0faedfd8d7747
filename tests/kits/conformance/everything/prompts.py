"""Prompts: plain, with arguments, with a resource, with a picture."""

from __future__ import annotations

from samples import RED_DOT
from shelf import registry

from mcp_bridge import EmbeddedResource, Image, Text, prompt
from mcp_bridge.content import Content

PLACES = ("paris", "park", "party")


@prompt(name="test_simple_prompt", registry=registry)
def simple() -> str:
    """A prompt with a constant text."""
    return "This is a simple prompt for testing."


@prompt(name="test_prompt_with_arguments", completions={"arg1": PLACES}, registry=registry)
def with_arguments(arg1: str, arg2: str) -> str:
    """A prompt with two arguments.

    Args:
        arg1: The first test argument.
        arg2: The second test argument.
    """
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@prompt(name="test_prompt_with_embedded_resource", registry=registry)
def with_embedded_resource(resourceUri: str) -> list[Content]:
    """A prompt with an embedded resource.

    Args:
        resourceUri: The URI of the resource to embed.
    """
    return [
        EmbeddedResource(resourceUri, "Embedded resource content for testing.", "text/plain"),
        Text("Please process the embedded resource above."),
    ]


@prompt(name="test_prompt_with_image", registry=registry)
def with_image() -> list[Content]:
    """A prompt with a picture."""
    return [Image(RED_DOT, "image/png"), Text("Please analyze the image above.")]
