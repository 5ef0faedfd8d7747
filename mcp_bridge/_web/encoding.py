"""The JSON that pages receive."""

from __future__ import annotations

from typing import Any

from mcp_bridge._protocol.wire.values import to_plain
from mcp_bridge._runtime.exact_json import dump_json


def encode_json(data: Any) -> bytes:
    """Return data as JSON. What JSON cannot represent, such as a lone surrogate in a message, is converted."""
    try:
        return dump_json(data)
    except TypeError:
        return dump_json(to_plain(data))
