"""Encodes and decodes HTTP headers with copies of parts of the body (2026-07-28, basic/transports/streamable-http).

A gateway can route a stateless request by these headers without parsing the body.
"""

from __future__ import annotations

import base64
import re

NAMED_METHODS = {
    "tools/call": "name", "prompts/get": "name", "resources/read": "uri",
    "tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId",
}  # fmt: skip
"""The methods whose requests have the header Mcp-Name, and the parameter that it repeats."""
_ENCODED = re.compile(r"=\?base64\?(.*)\?=")


def encode_header(text: str) -> str:
    """Return text as the value of a header, in Base64 between `=?base64?` and `?=` if a header cannot contain it."""
    if text.isascii() and text.isprintable() and text.strip() == text and not text.startswith("=?"):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def decode_header(value: str | None) -> str | None:
    """Return the value of a header, decoded if it is encoded as by `encode_header`, or None if that is malformed."""
    if value is None:
        return None
    match = _ENCODED.fullmatch(value)
    if match is None:
        return value
    try:
        data = base64.b64decode(match[1], validate=True)
        text = data.decode()
    except ValueError:
        return None
    # Python ignores unused bits at the end of Base64. Only one spelling of a value is accepted.
    is_canonical = base64.b64encode(data).decode() == match[1]
    return text if is_canonical else None
