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
    if text.isascii() and text.isprintable() and text.strip() == text and not text.startswith("=?"):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def decode_header(value: str | None) -> str | None:
    """Return a header's value, decoded if it is Base64 between sentinels, or None if that is malformed."""
    if value is None or not (match := _ENCODED.fullmatch(value)):
        return value
    try:
        data = base64.b64decode(match[1], validate=True)
        text = data.decode()
    except ValueError:
        return None
    return text if base64.b64encode(data).decode() == match[1] else None
