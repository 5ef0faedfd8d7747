"""What an agent attaches to its answer, as content: images, sounds, and any other file as a resource."""

from __future__ import annotations

import mimetypes
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from mcp_bridge.contracts.content import Audio, Content, EmbeddedResource, Image
from mcp_bridge.wire.values import from_bytes

_UNKNOWN = "application/octet-stream"
_SIGNATURES: tuple[tuple[int, bytes, str], ...] = (
    (0, b"BM", "image/bmp"),
    (0, b"II*\x00", "image/tiff"),
    (0, b"MM\x00*", "image/tiff"),
    (0, b"<svg", "image/svg+xml"),
    (4, b"ftypavif", "image/avif"),
    (4, b"ftyphei", "image/heic"),
    (0, b"\xff\xfb", "audio/mpeg"),
    (0, b"\xff\xf3", "audio/mpeg"),
    (0, b"\xff\xf2", "audio/mpeg"),
    (4, b"ftypM4A", "audio/mp4"),
    (0, b"\x1aE\xdf\xa3", "audio/webm"),
)
"""Where the first bytes are too short, or too rarely met, to tell what just any bytes are."""


def block(attachment: Any, place: str) -> Content:
    """An attachment as content of its kind; `place` tells several of one answer apart. Reads it, which may wait.

    What says that it is an image or a sound but is of no known type is a resource, too.
    """
    content = getattr(attachment, "content", None)
    data, name = _bytes(content), _name(content)
    kind = getattr(getattr(attachment, "type", None), "value", "file")
    mime = _given(attachment) or _sniffed(data, kind) or mimetypes.guess_type(name)[0] or _UNKNOWN
    if kind == "image" and mime.startswith("image/"):
        return Image(data, mime)
    if kind == "audio" and mime.startswith("audio/"):
        return Audio(data, mime)
    uri = f"xaibo://{quote(place)}" + (f"/{quote(name)}" if name else "")
    text = _text(data) if mime.startswith("text/") or mime == _UNKNOWN else None
    if text is None:
        return EmbeddedResource(uri, data, mime)
    return EmbeddedResource(uri, text, "text/plain" if mime == _UNKNOWN else mime)


def _bytes(content: Any) -> bytes:
    """What is in a file from where it stands; from the beginning where it stands at its end, as one just written."""
    if isinstance(content, str):
        return content.encode(errors="replace")
    if isinstance(content, bytes | bytearray | memoryview):
        return bytes(content)
    data = content.read()
    if not data and content.seekable():
        content.seek(0)
        data = content.read()
    return data.encode(errors="replace") if isinstance(data, str) else bytes(data)


def _name(content: Any) -> str:
    name = getattr(content, "name", None)  # of an open file; of a descriptor it is a number
    return PurePath(name).name if isinstance(name, str) else ""


def _given(attachment: Any) -> str:
    found = getattr(attachment, "mime_type", None)
    return found if isinstance(found, str) else ""


def _sniffed(data: bytes, kind: str) -> str:
    """What the first bytes tell, where that is of the kind that the agent says."""
    found = getattr(from_bytes(data), "mime_type", None)
    if found and found != _UNKNOWN:
        return str(found)
    if kind not in ("image", "audio"):
        return ""
    rare = (mime for at, start, mime in _SIGNATURES if data[at:].startswith(start) and mime.startswith(kind))
    return next(rare, "")


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
