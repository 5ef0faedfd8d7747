"""Estimates the memory of the arguments and the result of a call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_bridge._contracts.tool import ToolResult

MAX_SIZE = 1024 * 1024
"""The maximum size of the arguments and the result of one call after its end, in bytes."""
VALUE_SIZE = 64
"""The approximate memory of a value without its text, in bytes."""
MAX_VALUES = 4000
"""The maximum number of values that an estimate visits. Data with more counts as too large."""
TOO_LARGE = MAX_SIZE + 1
"""The estimated size of values that are too large to be kept."""
MAX_SMALL_TEXT = 1024
"""The maximum number of characters of each text of a small call."""
MAX_SMALL_ARGUMENTS = 8
"""The maximum number of arguments of a small call."""


def estimate_size(value: Any) -> int:
    """Return the approximate size of a value in bytes, or `TOO_LARGE` if it exceeds `MAX_SIZE`."""
    # A text is the usual case.
    if type(value) is str:
        return VALUE_SIZE + len(value)
    size = 0
    count = 0
    waiting = [value]
    while waiting:
        item = waiting.pop()
        count += 1
        size += VALUE_SIZE
        if isinstance(item, str | bytes | bytearray):
            size += len(item)
        elif isinstance(item, Mapping):
            waiting += item.keys()
            waiting += item.values()
        elif isinstance(item, list | tuple | set | frozenset):
            waiting += item
        if size > MAX_SIZE or count + len(waiting) > MAX_VALUES:
            return TOO_LARGE
    return size


def is_small(arguments: Any, result: ToolResult | None) -> bool:
    """Return whether a call has only a few short values. This costs less than an estimate."""
    if type(arguments) is not dict or len(arguments) > MAX_SMALL_ARGUMENTS:
        return False
    for key, value in arguments.items():
        value_type = type(value)
        if type(key) is not str or len(key) > MAX_SMALL_TEXT:
            return False
        if value_type is str:
            if len(value) > MAX_SMALL_TEXT:
                return False
        elif value_type is not int and value_type is not float and value_type is not bool and value is not None:
            return False
    if result is None:
        return True
    if result.content is not None or result.meta is not None or result.error is not None:
        return False
    output = result.output
    return output is None or (type(output) is str and len(output) <= MAX_SMALL_TEXT)


def estimate_result_size(result: ToolResult | None) -> int:
    """Return the approximate size of the output, the content and the metadata of a result, in bytes."""
    if result is None:
        return 0
    if result.encoded is not None and result.encoded.output is result.output:
        # The output is encoded already, so its size is known. The result keeps both the output and its text.
        size = 2 * result.encoded.size
    else:
        size = estimate_size(result.output)
    for block in result.content or ():
        for name in ("text", "data", "content"):
            value = getattr(block, name, "")
            if isinstance(value, str | bytes):
                size += len(value)
    if result.meta is not None:
        size += estimate_size(result.meta)
    return size
