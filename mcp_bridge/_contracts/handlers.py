"""What a handler is: whether it is async or can run at all, and what it may return to ask the client for input."""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from mcp_bridge._contracts.question import Question


def is_async(function: Callable[..., Any]) -> bool:
    """Whether a call returns a coroutine: for async functions, partials of them, and objects with async `__call__`.

    The same rule holds for handlers, middleware and third-party methods.
    """
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


class CheckedHandler(ABC):
    """A handler that knows whether its calls can succeed.

    A class to inherit from, because objects of other packages may have any attribute.
    """

    @abstractmethod
    def list_problems(self) -> Sequence[str]:
        """List why every call will fail; empty if calls can succeed."""


class PlannedCall(NamedTuple):
    """A step of a call that would be run: what it runs, such as a tool or a command line, and with what."""

    action: str
    arguments: Mapping[str, Any]


class PlanningHandler(ABC):
    """A handler that knows what a call would run.

    A class to inherit from, because objects of other packages may have any attribute.
    """

    __slots__ = ()

    @abstractmethod
    def plan_call(self, data: Any) -> Sequence[PlannedCall]:
        """Return what a call with valid arguments would run, without running it. Raises InvalidArguments."""


def find_handler_problems(handler: object) -> Sequence[str]:
    """Return why every call of a handler will fail; empty if calls can succeed or nothing is known about it."""
    return handler.list_problems() if isinstance(handler, CheckedHandler) else ()


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
