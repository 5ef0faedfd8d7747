"""Decides whether a callable is async, by the same rule for handlers, middleware and third-party methods."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any


def is_async(function: Callable[..., Any]) -> bool:
    """Whether a call returns a coroutine: for async functions, partials of them, and objects with async `__call__`."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
