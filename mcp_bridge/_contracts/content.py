"""Defines the content blocks of tool results, and of the messages of prompts and of sampling.

They are those of MCP 2025-11-25 and 2026-07-28 (server/tools, "Tool Result"; server/prompts; client/sampling).
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
    """Text for the model.

    >>> Text("Only for the user.", annotations={"audience": ["user"]}).text
    'Only for the user.'
    """

    text: str


class InjectedText(Text):
    """Text of a policy for the model, as an addition to a result. A tool never returns it."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class _Media(Content):
    """Raw bytes and their media type.

    Args:
        data: The bytes. JSON contains them in Base64.
        mime_type: The media type.
        path: A file to read in place of `data`.
        format: A short form of the media type, such as `png`. Without `mime_type` and `format`, the name of the file
            decides.

    Raises OSError for a file that cannot be read, and TypeError without bytes.
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
        """Return the media type by the format or the name of the file, or a default."""
        import mimetypes

        if isinstance(self, Audio):
            group, default = "audio", "audio/wav"
        else:
            group, default = "image", "image/png"
        name = str(path)
        if format is not None:
            name = f"file.{format}"
            default = f"{group}/{format.lower()}"
        media_type = mimetypes.guess_type(name)[0] or ""
        if not media_type.startswith(f"{group}/"):
            return default
        # Python returns the older name.
        return media_type.replace("audio/x-wav", "audio/wav")


@dataclass(frozen=True, slots=True)
class Image(_Media):
    r"""An image, such as `Image(data, "image/png")`, `Image(data, format="png")` or `Image(path="plot.png")`.

    >>> Image(b"\x89PNG", format="png").mime_type
    'image/png'
    """


@dataclass(frozen=True, slots=True)
class Audio(_Media):
    """Audio, such as `Audio(data, "audio/wav")`, `Audio(data, format="wav")` or `Audio(path="note.wav")`.

    >>> Audio(b"ID3", format="mp3").mime_type
    'audio/mpeg'
    """


@dataclass(frozen=True, slots=True)
class EmbeddedResource(Content):
    """A resource as a part of the result: its URI, and its text or bytes. `resource_meta` is the resource's `_meta`.

    >>> EmbeddedResource("file:///notes.md", "# Notes", "text/markdown").content
    '# Notes'
    """

    uri: str
    content: str | bytes
    mime_type: str | None = None
    resource_meta: Mapping[str, Any] | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class ResourceLink(Content):
    """A resource that the client may read by its URI. `size` is in bytes.

    >>> ResourceLink("file:///log.txt", "log", size=2048).name
    'log'
    """

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    icons: Sequence[Mapping[str, Any]] | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class Message(Content):
    """One message of a prompt or of a sampling request. `content` is a block, text or bytes.

    >>> Message("Hello!", "assistant").role
    'assistant'
    """

    content: Content | str | bytes
    role: Literal["user", "assistant"] = "user"


def is_sdk_content(content_type: type) -> bool:
    """Whether a type is a content block or result of the MCP SDK or FastMCP. This imports neither of them."""
    for base in content_type.__mro__:
        if base.__name__ in _SDK_CONTENT and base.__module__.partition(".")[0] in _SDK_PACKAGES:
            return True
    return False
