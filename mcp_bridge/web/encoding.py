"""The JSON that pages receive."""

from __future__ import annotations

from typing import Any

import orjson

from mcp_bridge.wire.values import to_plain


def encode_json(data: Any) -> bytes:
    """Return data as JSON. What JSON cannot represent, such as a lone surrogate in a message, is converted."""
    try:
        return orjson.dumps(data)
    except TypeError:
        return orjson.dumps(to_plain(data))
