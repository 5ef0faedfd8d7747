"""Runs the steps of an examination: each calls the stranger's code, and tells at once what it has found."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio

from mcp_bridge.runtime.third_party import described, passes, settled

Tell = Callable[[dict[str, Any]], None]
MOST = 300
"""Characters of what was found that are told."""
_OURS = ("mcp_bridge", "asyncio")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a call of somebody's code came to: an answer, an error, or neither in time."""

    answer: Any = None
    error: BaseException | None = None
    slow: bool = False

    @property
    def wrong(self) -> str:
        """Why there is no answer."""
        if self.slow:
            return "it did not end in time"
        return described(self.error) if self.error is not None else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A part of the examination. `item` is to blame when the process ends in it, `slow` when it takes too long.

    Of the steps of one `group` none is tried any more once one of them has held up, or ended, the process; those that
    are `always` done are what others stand on.
    """

    item: str
    run: Callable[[], Awaitable[None]]
    slow: str = ""
    subject: str = ""
    group: str = ""
    always: bool = False

    @property
    def key(self) -> str:
        """What it is told from others by."""
        return f"{self.item}:{self.subject}"


class Examiner:
    """Runs steps, but for those that have been tried. A call may take `patience` seconds."""

    def __init__(self, tell: Tell, patience: float, tried: Collection[str], printed: Callable[[], str]) -> None:
        self._tell = tell
        self.patience = patience
        self._tried = frozenset(tried)
        self._printed = printed
        self.logged = Logged()
        logging.getLogger().addHandler(self.logged)
        logging.getLogger().setLevel(logging.DEBUG)

    async def perform(self, steps: Sequence[Step]) -> None:
        """Run them, in order."""
        for step in steps:
            if not step.always and self._tried.intersection((step.key, step.group or step.key)):
                continue
            self._tell(
                {"say": "step", **{name: getattr(step, name) for name in ("key", "item", "slow", "group", "always")}}
            )
            try:
                await step.run()
            except BaseException as error:
                if passes(error):
                    raise
                self.failed(step.item, described(error), "Mend what raises this")
            if printed := self._printed():
                where = f" of '{step.subject}'" if step.subject else ""
                found = f"{printed!r} was printed during '{step.item}'{where}"
                self.failed("stdout", found, "Use logging, or print to sys.stderr")

    async def call(self, function: Callable[..., Any], *args: Any, **named: Any) -> Outcome:
        """Call somebody's function, sync or async, and wait for its answer."""
        self.alive()
        outcome = Outcome(slow=True)
        with anyio.move_on_after(self.patience) as scope:
            try:
                outcome = Outcome(answer=await settled(function(*args, **named)))
            except BaseException as error:
                if passes(error):
                    raise
                outcome = Outcome(error=error)
        return Outcome(slow=True) if scope.cancel_called else outcome

    def alive(self) -> None:
        """Have the time of one call begin now."""
        self._tell({"say": "alive"})

    def passed(self, item: str, found: str = "") -> None:
        """It is as it should be."""
        self._found(item, "passed", found)

    def failed(self, item: str, found: str, advice: str) -> None:
        """It is not."""
        self._found(item, "failed", found, advice)

    def skipped(self, item: str, why: str) -> None:
        """It cannot be told."""
        self._found(item, "skipped", why)

    def check(self, item: str, wrong: str, advice: str) -> bool:
        """Whether nothing is wrong, which is told in either case."""
        if wrong:
            self.failed(item, wrong, advice)
        else:
            self.passed(item)
        return not wrong

    def _found(self, item: str, state: str, found: str, advice: str = "") -> None:
        told = found if len(found) <= MOST else f"{found[:MOST]}…"
        self._tell({"say": "found", "item": item, "state": state, "found": told, "advice": advice})


class Logged(logging.Handler):
    """Counts what others than the checker log."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Count one record."""
        if record.name.partition(".")[0] not in _OURS:
            self.count += 1


def is_async(function: Any) -> bool:
    """Whether a call of it can only be awaited."""
    while isinstance(function, partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def misfit(function: Any, *args: Any, **named: Any) -> str:
    """Why a function cannot be called with these; nothing where it can, or does not say."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return ""
    try:
        signature.bind(*args, **named)
    except TypeError as error:
        return f"its parameters are {signature}: {error}"
    return ""


def method(owner: Any, name: str, *args: Any, named: Mapping[str, Any] | None = None, must_wait: bool = True) -> str:
    """What is wrong with a method that is called so; nothing where it is fine."""
    found = getattr(owner, name, None)
    if not callable(found):
        return f"`{name}` is not there" if found is None else f"`{name}` is a {type(found).__name__}"
    if must_wait and not is_async(found):
        return f"`{name}` is no `async def`"
    wrong = misfit(found, *args, **(named or {}))
    return f"`{name}` cannot be called as the contract does: {wrong}" if wrong else ""
