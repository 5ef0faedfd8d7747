"""Content blocks: what a tool may return (MCP 2025-11-25 and 2026-07-28, server/tools "Tool Result")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


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
class Image(Content):
    """An image: raw bytes (base64 on the wire) and their media type, such as `image/png`."""

    data: bytes
    mime_type: str


@dataclass(frozen=True, slots=True)
class Audio(Content):
    """Audio: raw bytes (base64 on the wire) and their media type, such as `audio/wav`."""

    data: bytes
    mime_type: str


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
