"""The JSON that pages receive."""

from __future__ import annotations

from typing import Any

from mcp_bridge.encoding.exact_json import dump_json
from mcp_bridge.wire.values import to_plain


def encode_json(data: Any) -> bytes:
    """Return data as JSON. What JSON cannot represent, such as a lone surrogate in a message, is converted."""
    try:
        return dump_json(data)
    except TypeError:
        return dump_json(to_plain(data))
