"""The resources, prompts and completions of the protocol tests."""

from __future__ import annotations

from typing import Any

from mcp_bridge import Audio, CallContext, EmbeddedResource, Image, Message, Text, prompt, resource
from tests.kits.protocol.protocol_tools import ICONS, OFFERED, PNG, SECRET, WAV, get_memory

LANGUAGES = ["go", "javascript", "java", "python", "typescript"]
MANY = [f"value-{number:03}" for number in range(150)]


@resource("test://text", registry=OFFERED, mime_type="text/plain", icons=ICONS, title="A text")
def text() -> str:
    """Text, not all of it ASCII."""
    return "héllo 世界"


@resource("test://bytes", registry=OFFERED, mime_type="image/png")
def binary() -> bytes:
    """Bytes."""
    return PNG


@resource("test://several", registry=OFFERED)
def several() -> list[Any]:
    """Two of them."""
    return [EmbeddedResource("test://several/1", "one", "text/plain"), EmbeddedResource("test://several/2", b"2")]


@resource("test://crash", registry=OFFERED)
def crash_resource() -> str:
    """Fails unexpectedly."""
    raise RuntimeError(f"the password is {SECRET}")


@resource("test://watched", registry=OFFERED)
def watched(ctx: CallContext) -> str:
    """Changes when it is touched."""
    return f"version {get_memory(ctx).versions.get('test://watched', 1)}"


@resource("test://people/{name}/notes/{number}", registry=OFFERED, completions={"name": ["ann", "anna", "bob"]})
def note(name: str, number: int) -> str:
    """A note."""
    return f"note {number} of {name}"


@resource("test://files/{+path}", registry=OFFERED)
def file(path: str) -> str:
    """A file."""
    return f"the file {path}"


@prompt(registry=OFFERED, icons=ICONS, title="A greeting")
def greeting() -> str:
    """Says hello."""
    return "Hello!"


async def frameworks(typed: str, arguments: Any) -> list[str]:
    return {"python": ["flask", "django"], "go": ["gin"]}.get(arguments.get("language", ""), [])


@prompt(
    registry=OFFERED,
    completions={"language": LANGUAGES, "framework": frameworks, "many": MANY, "broken": lambda typed: 1 / 0},
)
def review(language: str, lines: int = 10, framework: str = "", many: str = "", broken: str = "") -> str:
    """Reviews code.

    Args:
        language: The language it is written in.
    """
    return f"Review {lines} lines of {language}."


@prompt(registry=OFFERED)
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


@prompt(registry=OFFERED)
def crash_prompt() -> str:
    """Fails unexpectedly."""
    raise RuntimeError(f"the password is {SECRET}")


@prompt(registry=OFFERED)
def odd_prompt() -> list[Any]:
    """Returns content that does not match its type."""
    return [Message("good"), Image("not bytes", "image/png"), {"a": float("nan")}]  # type: ignore[arg-type]
