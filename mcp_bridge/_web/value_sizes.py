"""Estimates how much memory the values of a call take, without serialising them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_bridge._contracts.tool import ToolResult

MAX_SIZE = 1024 * 1024
"""The size in bytes beyond which the values of a call are not kept after its end."""
VALUE_SIZE = 64
"""The approximate memory of a value besides its text, in bytes."""
MAX_VALUES = 4000
"""How many values are visited. Data with more counts as too large."""
TOO_LARGE = MAX_SIZE + 1
SMALL = 1024
"""The maximum number of characters of a small text."""
MAX_PLAIN = 8
"""The maximum number of arguments of a small call."""


def estimate_size(value: Any) -> int:
    """Return the approximate size of a value in bytes, or `TOO_LARGE` if it exceeds `MAX_SIZE`."""
    if type(value) is str:  # the usual case
        return VALUE_SIZE + len(value)
    size, visited, waiting = 0, 0, [value]
    while waiting:
        one = waiting.pop()
        visited += 1
        size += VALUE_SIZE
        if isinstance(one, str | bytes | bytearray):
            size += len(one)
        elif isinstance(one, Mapping):
            waiting += one.keys()
            waiting += one.values()
        elif isinstance(one, list | tuple | set | frozenset):
            waiting += one
        if size > MAX_SIZE or visited + len(waiting) > MAX_VALUES:
            return TOO_LARGE
    return size


def is_small(arguments: Any, result: ToolResult | None) -> bool:
    """Whether a call has only a few short values. This costs less than an estimate."""
    if type(arguments) is not dict or len(arguments) > MAX_PLAIN:
        return False
    for key, value in arguments.items():
        kind = type(value)
        if type(key) is not str or len(key) > SMALL:
            return False
        if kind is str:
            if len(value) > SMALL:
                return False
        elif kind is not int and kind is not float and kind is not bool and value is not None:
            return False
    if result is None:
        return True
    if result.content is not None or result.meta is not None or result.error is not None:
        return False
    output = result.output
    return output is None or (type(output) is str and len(output) <= SMALL)


def estimate_result_size(result: ToolResult | None) -> int:
    """Return the approximate size of the output, the content and the metadata of a result, in bytes."""
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
