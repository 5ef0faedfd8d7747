"""What a handler is: whether it is async, and what it may return to ask the client for input."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp_bridge.contracts.question import Question


def is_async(function: Callable[..., Any]) -> bool:
    """Whether a call returns a coroutine: for async functions, partials of them, and objects with async `__call__`.

    The same rule holds for handlers, middleware and third-party methods.
    """
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


@dataclass(frozen=True, slots=True)
class NeedsInput:
    """Returned by a handler that needs answers: it is called again when they have arrived.

    The next call has the answers in `ctx.answers`, under the same names, and `state` (any JSON value, sealed while the
    client carries it) in `ctx.state`. Unlike `ctx.ask`, which waits inside the handler, this works across instances.
    Raises ValueError without questions.
    """

    questions: Mapping[str, Question]
    state: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.questions, Mapping) or not self.questions:
            raise ValueError("NeedsInput needs at least one question, as a mapping of names to questions")
