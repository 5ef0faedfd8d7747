"""Whether a handler is called or awaited: the one rule for handlers, middleware and third-party methods."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine: an async function, a partial of one, an object that is called like one."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
