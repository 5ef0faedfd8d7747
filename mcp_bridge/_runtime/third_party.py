"""Calls third-party code safely: awaits its methods if necessary, contains its errors, and copies its data.

An object of another package may return an awaitable or a value, raise anything (SystemExit and CancelledError included)
and keep its arguments. Every integration calls such code through these functions.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any

from anyio import to_thread

from mcp_bridge._contracts.handlers import is_async
from mcp_bridge._runtime.cancellation import is_being_cancelled
from mcp_bridge._runtime.event_loop import is_on_asyncio

_PYDANTIC_ADVICE = (
    r" Set `arbitrary_types_allowed=.*"
    r"|\s*If you got this error by calling handler.*"
    r"|\s*For further information visit \S+"
)

_ATOMS = frozenset((str, int, float, bool, bytes, type(None)))
"""Types whose values never change, so that they need no copy."""


async def call_method(method: Callable[..., Any], *args: object) -> Any:
    """Return the result of a method. A synchronous method runs in a thread. Raises the errors of the method."""
    if is_async(method):
        return await method(*args)
    result, error = await to_thread.run_sync(partial(_capture_outcome, method, *args), abandon_on_cancel=True)
    if error is not None:
        raise error
    return await resolve_awaitable(result)


async def resolve_awaitable(result: Any) -> Any:
    """Return the value of an awaitable, and any other object unchanged."""
    return await result if inspect.isawaitable(result) else result


def is_own_cancellation(error: BaseException) -> bool:
    """Whether `error` is the cancellation of the caller itself, so that it has to be raised again.

    All other errors belong to the third-party code.
    """
    if isinstance(error, Exception | SystemExit | KeyboardInterrupt):
        return False
    if isinstance(error, GeneratorExit):
        return True
    if is_being_cancelled(error):
        return True
    # asyncio may cancel this task without anyio, as `asyncio.timeout` does.
    if isinstance(error, asyncio.CancelledError) and is_on_asyncio():
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return False


def get_error_text(error: BaseException) -> str:
    """Return the text of an error without pydantic's links and its advice to authors of types."""
    return re.sub(_PYDANTIC_ADVICE, "", str(error))


def describe_error(error: BaseException) -> str:
    """Return the type and the text of an error, or only its type if `__str__` fails."""
    try:
        return f"{type(error).__name__}: {get_error_text(error)}"
    except Exception:
        return type(error).__name__


def unwrap_group(error: Exception) -> Exception:
    """Return the only error in nested groups, because the text of a group does not name its errors."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def copy_value(value: Any) -> Any:
    """Return a deep copy. Objects that cannot be copied, such as locks, are shared."""
    try:
        return _copy_plain(value)
    except RecursionError:
        # deepcopy handles values that contain themselves.
        return _copy_object(value)


def _copy_plain(value: Any) -> Any:
    """Copy a value of plain types, several times as fast as deepcopy."""
    value_type = type(value)
    if value_type in _ATOMS:
        return value
    # Most items are atoms, so checking them here saves most of the nested calls.
    if value_type is dict:
        return {key: item if type(item) in _ATOMS else _copy_plain(item) for key, item in value.items()}
    if value_type is list:
        return [item if type(item) in _ATOMS else _copy_plain(item) for item in value]
    return _copy_object(value)


def _copy_object(value: Any) -> Any:
    try:
        return deepcopy(value)
    except Exception:
        # Locks and sockets cannot be copied.
        return value


def _capture_outcome(method: Callable[..., Any], *args: object) -> tuple[Any, BaseException | None]:
    """Return errors as values: a future cannot carry a StopIteration, and a SystemExit would end the loop."""
    try:
        return method(*args), None
    except BaseException as error:
        return None, error
