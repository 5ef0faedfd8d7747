"""The examiner: runs checks, which call third-party code, and reports each result at once."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anyio

from mcp_bridge._contracts.handlers import is_async
from mcp_bridge._runtime.third_party import describe_error, is_own_cancellation, resolve_awaitable

Report = Callable[[dict[str, Any]], None]
MAX_FOUND = 300  # characters of a description that are reported
_OWN_LOGGERS = ("mcp_bridge", "asyncio")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOutcome:
    """The result of a call, or its error, or neither where it was too slow."""

    result: Any = None
    error: BaseException | None = None
    is_slow: bool = False

    @property
    def problem(self) -> str:
        if self.is_slow:
            return "it did not end in time"
        return describe_error(self.error) if self.error is not None else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A part of an examination. `item` fails when the process ends during it, `slow` when it takes too long.

    Once a step has blocked or ended its process, other steps of its `group` are not run. Steps that are `always` run
    again in each new process, because later steps depend on them.
    """

    item: str
    run: Callable[[], Awaitable[None]]
    slow: str = ""
    subject: str = ""
    group: str = ""
    always: bool = False

    @property
    def key(self) -> str:
        return f"{self.item}:{self.subject}"


class Examiner:
    """Runs steps, except those that an earlier process has `tried`. A call may take `patience` seconds.

    `read_printed` returns what the module has printed since the last call.
    """

    def __init__(
        self, report: Report, patience: float, tried: Collection[str], read_printed: Callable[[], str]
    ) -> None:
        self._report = report
        self.patience = patience
        self._tried = frozenset(tried)
        self._read_printed = read_printed
        self.log_counter = LogCounter()
        logging.getLogger().addHandler(self.log_counter)
        logging.getLogger().setLevel(logging.DEBUG)

    async def run_steps(self, steps: Sequence[Step]) -> None:
        """Run steps in order. An error of a step is reported as a failure of its item."""
        for step in steps:
            if not step.always and self._tried.intersection((step.key, step.group or step.key)):
                continue
            fields = {name: getattr(step, name) for name in ("key", "item", "slow", "group", "always")}
            self._report({"say": "step", **fields})
            try:
                await step.run()
            except BaseException as error:
                if is_own_cancellation(error):
                    raise
                self.report_failed(step.item, describe_error(error), "Fix what raises this")
            if printed := self._read_printed():
                subject = f" of '{step.subject}'" if step.subject else ""
                found = f"{printed!r} was printed during '{step.item}'{subject}"
                self.report_failed("stdout", found, "Use logging, or print to sys.stderr")

    async def call(self, function: Callable[..., Any], *args: Any, **named: Any) -> CallOutcome:
        self.report_call()
        outcome = CallOutcome(is_slow=True)
        with anyio.move_on_after(self.patience) as scope:
            try:
                outcome = CallOutcome(result=await resolve_awaitable(function(*args, **named)))
            except BaseException as error:
                if is_own_cancellation(error):
                    raise
                outcome = CallOutcome(error=error)
        return CallOutcome(is_slow=True) if scope.cancel_called else outcome

    def report_call(self) -> None:
        """Report that a call begins, so that the parent process measures its time from now."""
        self._report({"say": "alive"})

    def report_passed(self, item: str, found: str = "") -> None:
        self._report_finding(item, "passed", found)

    def report_failed(self, item: str, found: str, advice: str) -> None:
        self._report_finding(item, "failed", found, advice)

    def report_skipped(self, item: str, reason: str) -> None:
        self._report_finding(item, "skipped", reason)

    def check(self, item: str, problem: str, advice: str) -> bool:
        """Report that an item failed where there is a problem, else that it passed. Return whether it passed."""
        if problem:
            self.report_failed(item, problem, advice)
        else:
            self.report_passed(item)
        return not problem

    def _report_finding(self, item: str, state: str, found: str, advice: str = "") -> None:
        found = truncate(found, MAX_FOUND)
        self._report({"say": "found", "item": item, "state": state, "found": found, "advice": advice})


class LogCounter(logging.Handler):
    """Counts the log records of the module."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.partition(".")[0] not in _OWN_LOGGERS:
            self.count += 1


def truncate(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"


def describe_mismatch(function: Any, *args: Any, **named: Any) -> str:
    """Why a function cannot be called with these arguments. Empty where it can, or has no signature."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return ""
    try:
        signature.bind(*args, **named)
    except TypeError as error:
        return f"its parameters are {signature}: {error}"
    return ""


def describe_method_problem(
    owner: Any, name: str, *args: Any, named: Mapping[str, Any] | None = None, must_wait: bool = True
) -> str:
    """Why a method cannot be called, and awaited, as its contract says. Empty where it can."""
    found = getattr(owner, name, None)
    if not callable(found):
        return f"`{name}` is missing" if found is None else f"`{name}` is a {type(found).__name__}"
    if must_wait and not is_async(found):
        return f"`{name}` is no `async def`"
    mismatch = describe_mismatch(found, *args, **(named or {}))
    return f"`{name}` cannot be called as the contract does: {mismatch}" if mismatch else ""
