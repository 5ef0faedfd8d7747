"""Factories: functions and classes without arguments that make a tool or a set of tools."""

from __future__ import annotations

import inspect
from typing import Any

import anyio

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._runtime.third_party import call_method, describe_error, is_own_cancellation


def is_factory(value: object) -> bool:
    """Whether this is a function, or a class, that can be called without arguments."""
    if not callable(value):
        return False
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return False
    free = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return all(item.default is not item.empty or item.kind in free for item in parameters)


async def call_factory(factory: Any, reference: str, timeout: float | None) -> object:
    """Call a function without arguments, in a thread if it is synchronous.

    Raises SourceError if it fails or takes longer than `timeout` seconds.
    """
    try:
        with anyio.move_on_after(timeout):
            return await call_method(factory)
    except BaseException as error:
        if is_own_cancellation(error):
            raise
        raise SourceError(f"'{reference}' failed when it was called: {describe_error(error)}") from error
    raise SourceError(
        f"'{reference}' has made nothing within {timeout:g} seconds. Make it do less, or raise start_timeout"
    )
