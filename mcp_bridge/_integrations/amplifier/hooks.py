"""The registry of hooks: it has the handlers of each event and runs them (HOOK_CONTRACT 1.0.0).

It is stricter than amplifier-core's: for events that fail closed, a failing handler denies; modified data stays
modified when another handler asks or injects; no message to the user is lost; and handlers get copies of the data.
"""

from __future__ import annotations

import inspect
import itertools
import logging
import math
import time
from bisect import insort
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar

import anyio

from mcp_bridge._integrations.amplifier import events
from mcp_bridge._integrations.amplifier.hook_decisions import NO_DECISION, HookDecision, parse_hook_result
from mcp_bridge._integrations.amplifier.models import HookResult
from mcp_bridge._runtime.cancellation import Deadline, DeadlineClock, TaskDeadline
from mcp_bridge._runtime.third_party import copy_value, describe_error, is_own_cancellation

logger = logging.getLogger("mcp_bridge.amplifier")

Handler = Callable[[str, dict[str, Any]], Awaitable[Any] | Any]
# The seconds that a handler may take to decide.
HANDLER_TIMEOUT = 30.0
# The characters of patterns. No name of an event has them.
_PATTERN = frozenset("*?[]")
# The handlers of an event share a deadline, because restarting it for each handler takes longer than a fast handler. It
# is restarted after this share of the timeout, so a handler may get that much less than the whole timeout.
_SLACK = 0.01


@dataclass(frozen=True, slots=True, order=True)
class Registration:
    """One handler of one event. Lower priorities run first; equal ones in the order of registration."""

    priority: int
    number: int
    name: str = field(compare=False)
    handler: Handler = field(compare=False)


class HookRegistry:
    """Handlers by event.

    If a handler raises, returns no decision, or takes longer than `timeout` seconds (None: no limit), it has failed. A
    failed handler denies if `fail_closed` has the event. For any other event, it is logged and skipped. Handlers
    registered during an event do not receive it. A synchronous handler that blocks cannot be interrupted.

    >>> hooks = HookRegistry()
    >>> async def deny_delete(event, data):
    ...     return HookResult(action="deny" if data["tool_name"] == "delete" else "continue")
    >>> unregister = hooks.register(HookRegistry.TOOL_PRE, deny_delete, name="guard")
    >>> anyio.run(hooks.emit, "tool:pre", {"tool_name": "delete"}).action
    'deny'
    """

    SESSION_START: ClassVar = events.SESSION_START
    SESSION_END: ClassVar = events.SESSION_END
    PROMPT_SUBMIT: ClassVar = events.PROMPT_SUBMIT
    TOOL_PRE: ClassVar = events.TOOL_PRE
    TOOL_POST: ClassVar = events.TOOL_POST
    CONTEXT_PRE_COMPACT: ClassVar = events.CONTEXT_PRE_COMPACT
    ORCHESTRATOR_COMPLETE: ClassVar = events.ORCHESTRATOR_COMPLETE
    USER_NOTIFICATION: ClassVar = events.USER_NOTIFICATION

    def __init__(
        self, *, fail_closed: Collection[str] = (events.TOOL_PRE,), timeout: float | None = HANDLER_TIMEOUT
    ) -> None:
        self._fail_closed = frozenset(fail_closed)
        self._timeout = math.inf if timeout is None else timeout
        self._deadlines = DeadlineClock()
        self._registered: dict[str, list[Registration]] = {}
        self._defaults: dict[str, Any] = {}
        self._numbers = itertools.count()

    def register(self, event: str, handler: Handler, priority: int = 0, name: str | None = None) -> Callable[[], None]:
        """Register a sync or async handler of an event; the returned function unregisters this handler only.

        Raises TypeError for a handler that is not callable and for a priority that is no integer, and ValueError for
        an event that is a pattern, because no event has such a name and the handler would never run.
        """
        if not isinstance(event, str):
            raise TypeError(f"the event of a hook must be text, such as 'tool:pre', got {type(event).__name__}")
        if not event or not _PATTERN.isdisjoint(event):
            raise ValueError(f"a hook must name one event, such as 'tool:pre', got {event!r}. Register each event")
        if not callable(handler):
            raise TypeError(f"a hook on {event} must be callable, got {type(handler).__name__}")
        if not isinstance(priority, int):
            raise TypeError(f"the priority of a hook on {event} must be an integer, such as 10, got {priority!r}")
        name = name or str(getattr(handler, "__name__", type(handler).__name__))
        registration = Registration(priority, next(self._numbers), name, handler)
        # Replace the list, because a running event may iterate over the old one.
        registrations = list(self._registered.get(event, ()))
        insort(registrations, registration)
        self._registered[event] = registrations

        def unregister() -> None:
            self._filter_handlers(event, lambda entry: entry is not registration)

        return unregister

    on = register

    def unregister(self, name: str) -> None:
        for event in list(self._registered):
            self._filter_handlers(event, lambda registration: registration.name != name)

    def set_default_fields(self, **fields: Any) -> None:
        """Add fields to the data of every event, unless the event has its own."""
        self._defaults.update(fields)

    def list_handlers(self, event: str | None = None) -> dict[str, list[str]]:
        """Return the names of handlers by event, in the order they run."""
        by_event = self._registered if event is None else {event: self._registered.get(event, [])}
        names = {}
        for event_name, registrations in by_event.items():
            names[event_name] = [registration.name for registration in registrations]
        return names

    def list_registrations(self) -> dict[str, list[Registration]]:
        return {event: list(registrations) for event, registrations in self._registered.items()}

    def has_handlers(self, event: str) -> bool:
        return event in self._registered

    async def emit(self, event: str, data: dict[str, Any] | None = None) -> HookResult:
        """Call the handlers of an event in order and return their combined decision.

        A denial ends the event. Otherwise ask_user takes precedence over inject_context, modify and continue. `data` of
        the result has the changes of all handlers. Raises only the cancellation of the caller.
        """
        return (await self._run_handlers(event, data)).build_result()

    async def collect_decision(self, event: str, data: dict[str, Any]) -> HookResult:
        """Emit an event. If no handler decides anything, return the shared NO_DECISION, to build no object."""
        decision = await self._run_handlers(event, data)
        return decision.build_result() if decision.results else NO_DECISION

    async def emit_and_collect(
        self, event: str, data: dict[str, Any] | None = None, timeout: float | None = 1.0
    ) -> list[dict[str, Any]]:
        """Return the data that each handler returns, without those that fail or take longer than `timeout` seconds."""
        complete_data = self._add_defaults(data)
        collected_data = []
        for registration in self._registered.get(event, ()):
            with anyio.move_on_after(timeout) as scope:
                result = await self._run_handler(registration, event, complete_data, fails_closed=False)
                if result is not None and result.data is not None:
                    collected_data.append(result.data)
            if scope.cancelled_caught:
                self._fail_handler(registration, event, "it timed out", fails_closed=False)
        return collected_data

    def _filter_handlers(self, event: str, condition: Callable[[Registration], bool]) -> None:
        remaining = [registration for registration in self._registered.get(event, ()) if condition(registration)]
        if remaining:
            self._registered[event] = remaining
        else:
            self._registered.pop(event, None)

    def _add_defaults(self, data: dict[str, Any] | None) -> dict[str, Any]:
        return {**self._defaults, "timestamp": datetime.now(UTC).isoformat(), **(data or {})}

    async def _run_handlers(self, event: str, data: dict[str, Any] | None) -> HookDecision:
        decision = HookDecision(self._add_defaults(data))
        registrations = self._registered.get(event)
        if registrations:
            pending = iter(registrations)
            while not await self._run_until_timeout(pending, event, decision):
                pass
        return decision

    async def _run_until_timeout(self, pending: Iterator[Registration], event: str, decision: HookDecision) -> bool:
        """Run pending handlers until one times out; return whether the event is over.

        If the deadline passes, the running handler has timed out, and the caller runs the pending handlers with another
        deadline.
        """
        fails_closed = event in self._fail_closed
        registration: Registration | None = None
        began = time.monotonic()
        with self._deadlines.start_deadline(self._timeout) as deadline, _HandlerClock(deadline):
            for registration in pending:
                now = time.monotonic()
                if now - began > self._timeout * _SLACK:
                    deadline.restart(self._timeout)
                    began = now
                result = await self._run_handler(registration, event, decision.data, fails_closed=fails_closed)
                decision.add(result, registration.name)
                if decision.denial is not None:
                    return True
                # A handler that ignored its cancellation has still returned a decision. The next one needs a new
                # deadline, because this one would cancel it immediately.
                if deadline.has_passed:
                    return False
            return True
        # The deadline has cancelled the block above.
        if registration is not None:
            failure = self._fail_handler(registration, event, "it timed out", fails_closed=fails_closed)
            decision.add(failure, registration.name)
        return decision.denial is not None

    async def _run_handler(
        self, registration: Registration, event: str, data: dict[str, Any], *, fails_closed: bool
    ) -> HookResult | None:
        try:
            result = registration.handler(event, copy_value(data))
            if inspect.isawaitable(result):
                result = await result
            return parse_hook_result(result)
        except BaseException as error:
            if is_own_cancellation(error):
                raise
            return self._fail_handler(registration, event, describe_error(error), fails_closed=fails_closed)

    def _fail_handler(
        self, registration: Registration, event: str, problem: str, *, fails_closed: bool
    ) -> HookResult | None:
        if not fails_closed:
            logger.warning("skipped hook %r on %s: %s", registration.name, event, problem)
            return None
        logger.error("hook %r on %s failed, which denies: %s", registration.name, event, problem)
        return HookResult(action="deny", reason=f"The hook '{registration.name}' failed, so the operation is denied.")


_CLOCK: ContextVar[_HandlerClock | None] = ContextVar("handler_clock", default=None)


class _HandlerClock:
    """Allows the code in its `with` block to pause the deadline of the running handler.

    Handlers may call tools whose calls have hooks, too. Pausing the clock of an inner handler pauses the outer clocks.
    """

    __slots__ = ("_deadline", "_outer", "_pauses", "_token")

    def __init__(self, deadline: Deadline | TaskDeadline) -> None:
        self._deadline = deadline
        self._pauses = 0

    def __enter__(self) -> None:
        self._outer = _CLOCK.get()
        self._token: Token[_HandlerClock | None] = _CLOCK.set(self)

    def __exit__(self, *_: object) -> None:
        _CLOCK.reset(self._token)

    def pause(self) -> None:
        """Stop this clock and the clocks around it, until `resume` has been called as often as `pause`."""
        if not self._pauses:
            self._deadline.pause()
        self._pauses += 1
        if self._outer is not None:
            self._outer.pause()

    def resume(self) -> None:
        self._pauses -= 1
        if not self._pauses:
            self._deadline.resume()
        if self._outer is not None:
            self._outer.resume()


@contextmanager
def pause_handler_clock() -> Iterator[None]:
    """Stop the clock of the running handler for the block, while it waits for the user."""
    clock = _CLOCK.get()
    if clock is None:
        yield
        return
    clock.pause()
    try:
        yield
    finally:
        clock.resume()
