"""Content blocks: what a tool may return, and the messages of prompts and of sampling.

MCP 2025-11-25 and 2026-07-28, server/tools "Tool Result", server/prompts and client/sampling.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Literal

_SDK_PACKAGES = frozenset({"mcp", "mcp_types", "fastmcp"})
_SDK_CONTENT = frozenset(
    {"TextContent", "ImageContent", "AudioContent", "EmbeddedResource", "ResourceLink", "CallToolResult"}
    | {"Image", "Audio", "File"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The base of all blocks, with annotations (audience, priority, lastModified) and `_meta`."""

    annotations: Mapping[str, Any] | None = None
    meta: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Text(Content):
    """Text for the model."""

    text: str


class InjectedText(Text):
    """Text for the model that a policy adds to a result."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class _Media(Content):
    """Raw bytes (base64 on the wire) and their media type.

    `path` is a file to read instead. `format`, such as `png`, replaces the media type; without both, the name of the
    file shows it. Raises OSError for a file that cannot be read, and TypeError without bytes.
    """

    data: bytes = b""
    mime_type: str = ""
    path: InitVar[str | PathLike[str] | None] = field(default=None, kw_only=True)
    format: InitVar[str | None] = field(default=None, kw_only=True)

    def __post_init__(self, path: str | PathLike[str] | None, format: str | None) -> None:
        is_empty = type(self.data) is bytes and not self.data
        if path is not None and is_empty:
            object.__setattr__(self, "data", Path(path).read_bytes())
        elif path is not None or (is_empty and not self.mime_type):
            raise TypeError(f"{type(self).__name__} takes either its bytes or path=")
        if not self.mime_type:
            object.__setattr__(self, "mime_type", self._find_media_type(path, format))

    def _find_media_type(self, path: str | PathLike[str] | None, format: str | None) -> str:
        import mimetypes

        kind, default = ("audio", "audio/wav") if isinstance(self, Audio) else ("image", "image/png")
        name = f"file.{format}" if format is not None else str(path)
        media_type = mimetypes.guess_type(name)[0] or ""
        if media_type.startswith(f"{kind}/"):
            return media_type.replace("audio/x-wav", "audio/wav")
        return default if format is None else f"{kind}/{format.lower()}"


@dataclass(frozen=True, slots=True)
class Image(_Media):
    """An image, such as `Image(data, "image/png")`, `Image(data, format="png")` or `Image(path="plot.png")`."""


@dataclass(frozen=True, slots=True)
class Audio(_Media):
    """Audio, such as `Audio(data, "audio/wav")`, `Audio(data, format="wav")` or `Audio(path="note.wav")`."""


@dataclass(frozen=True, slots=True)
class EmbeddedResource(Content):
    """A resource inside the result: its URI, and its text or bytes. `resource_meta` is its own `_meta`."""

    uri: str
    content: str | bytes
    mime_type: str | None = None
    resource_meta: Mapping[str, Any] | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class ResourceLink(Content):
    """A resource that the client may read by its URI. `size` is in bytes."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    icons: Sequence[Mapping[str, Any]] | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class Message(Content):
    """One message of a prompt or of a sampling request. `content` is a block, text or bytes."""

    content: Content | str | bytes
    role: Literal["user", "assistant"] = "user"


def is_sdk_content(kind: type) -> bool:
    """Return whether a type is a content block or result of the MCP SDK or FastMCP, which are never imported here."""
    return any(
        base.__name__ in _SDK_CONTENT and base.__module__.partition(".")[0] in _SDK_PACKAGES for base in kind.__mro__
    )
