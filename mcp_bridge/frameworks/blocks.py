"""Pictures, sounds and files of other frameworks, as content blocks."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

from mcp_bridge.contracts.content import Audio, Content, EmbeddedResource, Image, ResourceLink, Text
from mcp_bridge.wire.values import as_text, from_bytes


def of_data(data: bytes, mime_type: str | None = None) -> Content:
    """Bytes as what their media type says, or where there is none, what their first bytes tell."""
    kind = (mime_type or "").lower()
    if kind.startswith("image/"):
        return Image(data, kind)
    if kind.startswith("audio/"):
        return Audio(data, kind)
    return EmbeddedResource(f"data:{kind}", data, kind) if kind else from_bytes(data)


def of_base64(text: str | bytes, mime_type: str | None = None) -> Content:
    """The same from base64; text that is none stays text."""
    try:
        return of_data(base64.b64decode(text, validate=True), mime_type)
    except (binascii.Error, ValueError):
        return Text(text if isinstance(text, str) else text.decode(errors="replace"))


def of_url(url: str, mime_type: str | None = None) -> Content:
    """What a `data:` URL holds; any other is a link, which the client may follow: nothing is fetched here."""
    if not url.startswith("data:"):
        return ResourceLink(url, url.rstrip("/").rpartition("/")[2] or url, mime_type=mime_type)
    head, _, body = url[len("data:") :].partition(",")
    kind, *options = head.split(";")
    if "base64" in options:
        return of_base64(body, kind or mime_type)
    return of_data(unquote_to_bytes(body), kind or mime_type or "text/plain")


def of_file(path: str | Path, mime_type: str | None = None) -> Content:
    """What is in a file that a tool has written. Raises OSError."""
    return of_data(Path(path).read_bytes(), mime_type)


def of_mapping(block: Mapping[str, Any]) -> Content:
    """A block as chat messages have it, in the forms of LangChain, OpenAI and Anthropic; an unknown one as its JSON."""
    kind, text = block.get("type"), block.get("text")
    if kind == "text" and isinstance(text, str):
        return Text(text)
    source = block.get("source")
    held = source if isinstance(source, Mapping) else block
    url = held.get("image_url", held.get("url"))
    url = url.get("url") if isinstance(url, Mapping) else url
    mime_type = held.get("mime_type", held.get("media_type"))
    mime_type = mime_type if isinstance(mime_type, str) else {"image": "image/png", "audio": "audio/wav"}.get(str(kind))
    data = held.get("base64", held.get("data"))
    if isinstance(data, bytes):
        return of_data(data, mime_type)
    if isinstance(data, str):
        return of_base64(data, mime_type)
    return of_url(url, mime_type) if isinstance(url, str) else Text(as_text(dict(block)))
