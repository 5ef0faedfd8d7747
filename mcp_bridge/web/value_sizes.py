"""How much memory the values of a call take, estimated without serialising them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_bridge.contracts.tool import ToolResult

MAX_SIZE = 1024 * 1024
"""Values of a call that are larger are not kept after its end."""
VALUE_SIZE = 64
"""About how many bytes of memory a value takes besides its text."""
MAX_VALUES = 4000
"""How many values are visited; with more, the whole counts as too large."""
TOO_LARGE = MAX_SIZE + 1


def estimate_size(value: Any) -> int:
    """Return about how many bytes a value takes; `TOO_LARGE` for more than `MAX_SIZE`."""
    if type(value) is str:  # the usual case
        return VALUE_SIZE + len(value)
    size, visited, waiting = 0, 0, [value]
    while waiting:
        one = waiting.pop()
        visited += 1
        size += VALUE_SIZE
        kind = type(one)
        if kind is str:  # the usual cases
            size += len(one)
        elif kind is dict:
            waiting += one
            waiting += one.values()
        elif kind is int or kind is float or kind is bool or one is None:
            continue
        elif isinstance(one, bytes | bytearray | str):
            size += len(one)
        elif isinstance(one, Mapping):
            waiting += one.keys()
            waiting += one.values()
        elif isinstance(one, list | tuple | set | frozenset):
            waiting += one
        if size > MAX_SIZE or visited + len(waiting) > MAX_VALUES:
            return TOO_LARGE
    return size


def estimate_result_size(result: ToolResult | None) -> int:
    """Return about how many bytes the output, the content and the metadata of a result take."""
    if result is None:
        return 0
    if result.encoded is not None and result.encoded.output is result.output:
        size = 2 * result.encoded.size  # the output and its text
    else:
        size = estimate_size(result.output)
    if result.content is None and result.meta is None:  # the usual case
        return size
    for block in result.content or ():
        for name in ("text", "data", "content"):
            value = getattr(block, name, "")
            size += len(value) if isinstance(value, str | bytes) else 0
    return size + (estimate_size(result.meta) if result.meta is not None else 0)
