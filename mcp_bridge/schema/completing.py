"""Functions that complete an argument, under the one calling convention of handlers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from mcp_bridge.contracts.callables import is_async


def completing(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """A completion function as a handler of `{"value", "known"}`; a second parameter of it gets what is known."""
    takes = [
        item
        for item in inspect.signature(function).parameters.values()
        if item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD, item.VAR_POSITIONAL)
    ]
    both = len(takes) > 1 or any(item.kind is item.VAR_POSITIONAL for item in takes)

    def arguments(data: Any) -> tuple[Any, ...]:
        return (data["value"], data["known"]) if both else (data["value"],)

    if is_async(function):

        async def awaited(data: Any) -> Any:
            return await function(*arguments(data))

        return awaited
    return lambda data: function(*arguments(data))
