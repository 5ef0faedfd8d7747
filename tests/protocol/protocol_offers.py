"""The resources, prompts and completions of the protocol tests."""

from __future__ import annotations

from typing import Any

from protocol_tools import ICONS, PNG, SECRET, WAV

from mcp_bridge import Audio, EmbeddedResource, Image, Message, PromptEntry, ResourceEntry, Text, prompt, resource, tool
from mcp_bridge import ToolRegistry as Registry

LANGUAGES = ["go", "javascript", "java", "python", "typescript"]
MANY = [f"value-{number:03}" for number in range(150)]


def offer_resources(registry: Registry) -> None:
    """Text, bytes, JSON, several at once, templates, and what cannot be read."""
    versions = {"test://watched": 1}

    @resource("test://text", registry=registry, mime_type="text/plain", icons=ICONS, title="A text")
    def text() -> str:
        """Text, not all of it ASCII."""
        return "héllo 世界"

    @resource("test://bytes", registry=registry, mime_type="image/png")
    def binary() -> bytes:
        """Bytes."""
        return PNG

    @resource("test://several", registry=registry)
    def several() -> list[Any]:
        """Two of them."""
        return [EmbeddedResource("test://several/1", "one", "text/plain"), EmbeddedResource("test://several/2", b"2")]

    @resource("test://crash", registry=registry)
    def crash_resource() -> str:
        """Fails in a way that nobody expected."""
        raise RuntimeError(f"the password is {SECRET}")

    @resource("test://watched", registry=registry)
    def watched() -> str:
        """Changes when it is touched."""
        return f"version {versions['test://watched']}"

    @resource("test://people/{name}/notes/{number}", registry=registry, completions={"name": ["ann", "anna", "bob"]})
    def note(name: str, number: int) -> str:
        """A note of somebody."""
        return f"note {number} of {name}"

    @resource("test://files/{+path}", registry=registry)
    def file(path: str) -> str:
        """A file."""
        return f"the file {path}"

    @tool(registry=registry)
    def touch(uri: str) -> str:
        """Changes a resource."""
        versions["test://watched"] += 1
        registry.resource_updated(uri)
        return "touched"

    @tool(registry=registry)
    def add_resource(uri: str) -> str:
        """One resource more."""
        registry.resources.add(ResourceEntry(uri, lambda data: "came later"))
        return "added"

    @tool(registry=registry)
    def add_prompt(name: str) -> str:
        """One prompt more."""
        registry.prompts.add(PromptEntry(name, lambda arguments: "came later"))
        return "added"


def offer_prompts(registry: Registry) -> None:
    """Plain ones, some with arguments, with every kind of content, and what cannot be had."""

    @prompt(registry=registry, icons=ICONS, title="A greeting")
    def greeting() -> str:
        """Says hello."""
        return "Hello!"

    async def frameworks(typed: str, known: Any) -> list[str]:
        return {"python": ["flask", "django"], "go": ["gin"]}.get(known.get("language", ""), [])

    @prompt(
        registry=registry,
        completions={"language": LANGUAGES, "framework": frameworks, "many": MANY, "broken": lambda typed: 1 / 0},
    )
    def review(language: str, lines: int = 10, framework: str = "", many: str = "", broken: str = "") -> str:
        """Reviews code.

        Args:
            language: The language it is written in.
        """
        return f"Review {lines} lines of {language}."

    @prompt(registry=registry)
    def gallery() -> list[Any]:
        """One message of each kind."""
        return [
            Message("Look.", "assistant"),
            Text("text"),
            Image(PNG, "image/png"),
            Audio(WAV, "audio/wav"),
            EmbeddedResource("test://text", "embedded", "text/plain"),
            EmbeddedResource("test://bytes", b"\x00\xff", "application/octet-stream"),
        ]

    @prompt(registry=registry)
    def crash_prompt() -> str:
        """Fails in a way that nobody expected."""
        raise RuntimeError(f"the password is {SECRET}")
