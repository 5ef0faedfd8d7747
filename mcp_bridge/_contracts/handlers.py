"""Handlers: whether they are async and can run, and their request for input from the client."""

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
    """Return whether a call returns a coroutine: of async functions, partials, and objects with async `__call__`.

    The same rule holds for handlers, middleware and third-party methods.
    """
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


class CheckedHandler(ABC):
    """A handler that can list why its calls cannot succeed.

    It is a class to inherit from, because objects of other packages may have any attribute.
    """

    @abstractmethod
    def list_problems(self) -> Sequence[str]:
        """List the reasons why every call will fail; empty if calls can succeed."""


class PlannedCall(NamedTuple):
    """A planned step of a call: the tool or command line, and its arguments."""

    action: str
    arguments: Mapping[str, Any]


class PlanningHandler(ABC):
    """A handler that can plan its calls; a class to inherit from, like `CheckedHandler`."""

    __slots__ = ()

    @abstractmethod
    def plan_call(self, data: Any) -> Sequence[PlannedCall]:
        """Return the steps of a call with valid arguments, without running it. Raises InvalidArguments."""


def find_handler_problems(handler: object) -> Sequence[str]:
    """Return the reasons why every call of a handler will fail; empty if calls can succeed or that is unknown."""
    if isinstance(handler, CheckedHandler):
        return handler.list_problems()
    return ()


@dataclass(frozen=True, slots=True)
class NeedsInput:
    """Returned by a handler that needs answers: it is called again when they have arrived.

    The next call has the answers in `ctx.answers`, under the same names, and `state` (any JSON value, sealed while the
    client carries it) in `ctx.state`. Unlike `ctx.ask`, which waits inside the handler, this works across instances.
    Raises ValueError without questions.

    >>> from mcp_bridge.questions import Form
    >>> def book(arguments, ctx):
    ...     if not ctx.answers:
    ...         return NeedsInput({"seat": Form("Which seat?", str)}, state=arguments["flight"])
    ...     return f"{ctx.state}: seat {ctx.answers['seat'].data}"
    """

    questions: Mapping[str, Question]
    state: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.questions, Mapping) or not self.questions:
            raise ValueError("NeedsInput needs at least one question, as a mapping of names to questions")
