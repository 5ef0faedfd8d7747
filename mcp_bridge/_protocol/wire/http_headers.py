"""HTTP headers that repeat the body of a stateless request (2026-07-28, basic/transports/streamable-http)."""

from __future__ import annotations

import base64
import re

NAMED_METHODS = {
    "tools/call": "name", "prompts/get": "name", "resources/read": "uri",
    "tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId",
}  # fmt: skip
"""The methods with a name in Mcp-Name, and the parameter of the name."""
_ENCODED = re.compile(r"=\?base64\?(.*)\?=")


def encode_header(text: str) -> str:
    """Return text as the value of a header, in Base64 between sentinels if it cannot be one as it is."""
    is_plain = text.isascii() and text.isprintable() and text.strip() == text and not text.startswith("=?")
    return text if is_plain else f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def decode_header(value: str | None) -> str | None:
    """Return a header's value, decoded if it is Base64 between sentinels, or None if that is malformed."""
    encoded = _ENCODED.fullmatch(value) if value is not None and value.startswith("=?") else None
    if encoded is None:
        return value
    try:
        decoded = base64.b64decode(encoded[1], validate=True)
        return decoded.decode() if base64.b64encode(decoded).decode() == encoded[1] else None
    except ValueError:
        return None
