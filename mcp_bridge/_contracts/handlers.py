"""Questions of the core about handlers, and requests of handlers for input from the client.

The core asks whether a handler is async, why its calls would fail (`CheckedHandler`), and which steps a call would have
(`PlanningHandler`). A handler may return `NeedsInput`, and is called again with the answers.
"""

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
    """Whether a call returns a coroutine.

    This is so for async functions, partial objects of them, and objects with an async `__call__`. The same rule holds
    for handlers, middleware and third-party methods.
    """
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


class CheckedHandler(ABC):
    """A handler that can list why its calls cannot succeed.

    It is a class to inherit from and not a protocol, because a third-party object may happen to have a method of this
    name.
    """

    @abstractmethod
    def list_problems(self) -> Sequence[str]:
        """List the reasons why every call will fail. The list is empty if calls can succeed."""


class PlannedCall(NamedTuple):
    """A planned step of a call: the tool or command line, and its arguments."""

    action: str
    arguments: Mapping[str, Any]


class PlanningHandler(ABC):
    """A handler that can list the steps of a call before it runs. Like `CheckedHandler`, it is to be inherited from."""

    __slots__ = ()

    @abstractmethod
    def plan_call(self, data: Any) -> Sequence[PlannedCall]:
        """Return the steps of a call with valid arguments, without running it. Raises InvalidArguments."""


def find_handler_problems(handler: object) -> Sequence[str]:
    """Return the reasons why every call of a handler will fail, or nothing if calls may succeed."""
    if isinstance(handler, CheckedHandler):
        return handler.list_problems()
    return ()


@dataclass(frozen=True, slots=True)
class NeedsInput:
    """A handler returns this to ask questions. It is called again when the answers have arrived.

    The next call has the answers in `ctx.answers`, under the names of the questions, and `state` in `ctx.state`. The
    state is any JSON value, and encrypted while it passes through the client. Unlike `ctx.ask`, which waits inside the
    handler, this also works if another instance of the server receives the answers. Raises ValueError without
    questions.

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
