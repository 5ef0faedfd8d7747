"""Converts the images, audio and files of other frameworks to content blocks."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

from mcp_bridge._contracts.content import Content, ResourceLink, Text
from mcp_bridge._protocol.wire.values import from_bytes, to_plain_text

_DEFAULT_TYPES = {"image": "image/png", "audio": "audio/wav"}


def from_base64(text: str | bytes, mime_type: str | None = None) -> Content:
    """Return base64 data as content; text that is not base64 stays text."""
    try:
        return from_bytes(base64.b64decode(text, validate=True), mime_type)
    except (binascii.Error, ValueError):
        return Text(text if isinstance(text, str) else text.decode(errors="replace"))


def from_url(url: str, mime_type: str | None = None) -> Content:
    """Return the data of a `data:` URL; any other URL becomes a link for the client. Nothing is fetched here."""
    if not url.startswith("data:"):
        return ResourceLink(url, url.rstrip("/").rpartition("/")[2] or url, mime_type=mime_type)
    head, _, body = url[len("data:") :].partition(",")
    media_type, *options = head.split(";")
    if "base64" in options:
        return from_base64(body, media_type or mime_type)
    return from_bytes(unquote_to_bytes(body), media_type or mime_type or "text/plain")


def from_file(path: str | Path, mime_type: str | None = None) -> Content:
    """Return the content of a file that a tool has written. Raises OSError."""
    return from_bytes(Path(path).read_bytes(), mime_type)


def from_mapping(block: Mapping[str, Any]) -> Content:
    """Convert a block of a chat message in the form of LangChain, OpenAI or Anthropic. Other blocks become JSON."""
    block_type, text = block.get("type"), block.get("text")
    if block_type == "text" and isinstance(text, str):
        return Text(text)
    # Anthropic's blocks have the fields of the media in `source`.
    source = block.get("source")
    fields = source if isinstance(source, Mapping) else block
    url = fields.get("image_url", fields.get("url"))
    # OpenAI's blocks have a mapping with the URL.
    if isinstance(url, Mapping):
        url = url.get("url")
    mime_type = fields.get("mime_type", fields.get("media_type"))
    if not isinstance(mime_type, str):
        mime_type = _DEFAULT_TYPES.get(str(block_type))
    data = fields.get("base64", fields.get("data"))
    if isinstance(data, bytes):
        return from_bytes(data, mime_type)
    if isinstance(data, str):
        return from_base64(data, mime_type)
    if isinstance(url, str):
        return from_url(url, mime_type)
    return Text(to_plain_text(dict(block)))
