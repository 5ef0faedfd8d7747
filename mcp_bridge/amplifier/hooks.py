"""HookRegistry: who hears which events (HOOK_CONTRACT 1.0.0).

Safer than amplifier-core's: a handler that raises or hangs denies where that is asked for, data that one handler has
modified stays modified when another asks or injects, no message for the user is lost, and no handler can change the
data of anybody else in place.
"""

from __future__ import annotations

import inspect
import itertools
import logging
import math
import time
from bisect import insort
from collections.abc import Awaitable, Callable, Collection, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar

import anyio

from mcp_bridge.amplifier import events
from mcp_bridge.amplifier.clocks import Clock
from mcp_bridge.amplifier.decisions import SILENCE, Decision, as_result
from mcp_bridge.amplifier.models import ContextInjection, HookResult
from mcp_bridge.runtime.third_party import copied, described, passes

__all__ = ["ContextInjection", "HookRegistry", "HookResult", "Registration"]

logger = logging.getLogger("mcp_bridge.amplifier")

Handler = Callable[[str, dict[str, Any]], Awaitable[Any] | Any]
TIMEOUT = 30.0
"""Seconds that a handler may take to decide."""
_SLACK = 0.01
"""The share of its time that a handler may lose to those before it: a new deadline for each would cost more than it."""


@dataclass(frozen=True, slots=True, order=True)
class Registration:
    """One handler of one event. Lower priorities come first, then those that were there first."""

    priority: int
    number: int
    name: str = field(compare=False)
    handler: Handler = field(compare=False)


class HookRegistry:
    """Handlers by event.

    `fail_closed` are the events that a handler denies by raising, by not deciding within `timeout` seconds (None: no
    limit), or by answering what is no decision; of other events such a handler is left out, and the log says so.
    An event goes to those who are registered when it is emitted. A synchronous handler that blocks cannot be stopped.
    """

    SESSION_START: ClassVar = events.SESSION_START
    SESSION_END: ClassVar = events.SESSION_END
    PROMPT_SUBMIT: ClassVar = events.PROMPT_SUBMIT
    TOOL_PRE: ClassVar = events.TOOL_PRE
    TOOL_POST: ClassVar = events.TOOL_POST
    CONTEXT_PRE_COMPACT: ClassVar = events.CONTEXT_PRE_COMPACT
    ORCHESTRATOR_COMPLETE: ClassVar = events.ORCHESTRATOR_COMPLETE
    USER_NOTIFICATION: ClassVar = events.USER_NOTIFICATION

    def __init__(self, *, fail_closed: Collection[str] = (events.TOOL_PRE,), timeout: float | None = TIMEOUT) -> None:
        self._fail_closed = frozenset(fail_closed)
        self._timeout = math.inf if timeout is None else timeout
        self._registered: dict[str, list[Registration]] = {}
        self._defaults: dict[str, Any] = {}
        self._numbers = itertools.count()

    def register(self, event: str, handler: Handler, priority: int = 0, name: str | None = None) -> Callable[[], None]:
        """Have a handler, sync or async, hear an event; the answer takes this very handler away again.

        Raises TypeError for what cannot be called.
        """
        if not callable(handler):
            raise TypeError(f"a hook on {event} is a function or has __call__, found {type(handler).__name__}")
        known = name or str(getattr(handler, "__name__", type(handler).__name__))
        registration = Registration(priority, next(self._numbers), known, handler)
        registered = list(self._registered.get(event, ()))
        insort(registered, registration)
        self._registered[event] = registered

        def unregister() -> None:
            self._keep(event, lambda one: one is not registration)

        return unregister

    on = register

    def unregister(self, name: str) -> None:
        """Take every handler of this name away."""
        for event in list(self._registered):
            self._keep(event, lambda one: one.name != name)

    def set_default_fields(self, **fields: Any) -> None:
        """Fields that every event's data has, unless the event has its own."""
        self._defaults.update(fields)

    def list_handlers(self, event: str | None = None) -> dict[str, list[str]]:
        """The names of handlers by event, in their order."""
        chosen = self._registered if event is None else {event: self._registered.get(event, [])}
        return {name: [one.name for one in registered] for name, registered in chosen.items()}

    def registrations(self) -> dict[str, list[Registration]]:
        """Who is registered, by event, in their order."""
        return {event: list(registered) for event, registered in self._registered.items()}

    def hears(self, event: str) -> bool:
        """Whether anybody hears an event."""
        return event in self._registered

    async def emit(self, event: str, data: dict[str, Any] | None = None) -> HookResult:
        """Have every handler of an event decide, in order; what they decide together.

        A denial ends it. Of the other decisions ask_user comes before inject_context, before modify, before continue.
        `data` of the answer is what they have made of the data. Raises nothing but the caller's own cancellation.
        """
        return (await self._decided(event, data)).result()

    async def decide(self, event: str, data: dict[str, Any]) -> HookResult:
        """The same for whoever governs a call; where nobody says anything it is `SILENCE`, which costs nothing."""
        decision = await self._decided(event, data)
        return decision.result() if decision.said else SILENCE

    async def emit_and_collect(
        self, event: str, data: dict[str, Any] | None = None, timeout: float | None = 1.0
    ) -> list[dict[str, Any]]:
        """The data that each handler of an event answers with; without those that fail, or take `timeout` seconds."""
        complete, found = self._complete(data), []
        for registration in self._registered.get(event, ()):
            with anyio.move_on_after(timeout) as scope:
                result = await self._answer(registration, event, complete, closed=False)
                if result is not None and result.data is not None:
                    found.append(result.data)
            if scope.cancelled_caught:
                self._fail(registration, event, "it did not answer in time", closed=False)
        return found

    def _keep(self, event: str, wanted: Callable[[Registration], bool]) -> None:
        kept = [one for one in self._registered.get(event, ()) if wanted(one)]
        if kept:
            self._registered[event] = kept
        else:
            self._registered.pop(event, None)

    def _complete(self, data: dict[str, Any] | None) -> dict[str, Any]:
        return {**self._defaults, "timestamp": datetime.now(UTC).isoformat(), **(data or {})}

    async def _decided(self, event: str, data: dict[str, Any] | None) -> Decision:
        decision = Decision(self._complete(data))
        registered = self._registered.get(event)
        if registered:
            waiting = iter(registered)
            while not await self._hear(waiting, event, decision):
                pass
        return decision

    async def _hear(self, waiting: Iterator[Registration], event: str, decision: Decision) -> bool:
        """Hear the handlers that wait until one is too slow; whether that is all. One scope for all costs a third."""
        closed = event in self._fail_closed
        registration: Registration | None = None
        since = time.monotonic()
        with anyio.move_on_after(self._timeout) as scope, Clock(scope):
            for registration in waiting:
                if (now := time.monotonic()) - since > self._timeout * _SLACK:
                    scope.deadline, since = anyio.current_time() + self._timeout, now
                decision.add(await self._answer(registration, event, decision.data, closed=closed))
                if decision.denied is not None:
                    return True
                if scope.cancel_called:  # an answer after all, so it counts; but nobody else can wait in here
                    return False
            return True
        if registration is not None:
            decision.add(self._fail(registration, event, "it did not decide in time", closed=closed))
        return decision.denied is not None

    async def _answer(
        self, registration: Registration, event: str, data: dict[str, Any], *, closed: bool
    ) -> HookResult | None:
        """What one handler decides; what it does wrong is a denial, or nothing."""
        try:
            answer = registration.handler(event, copied(data))
            return as_result(await answer if inspect.isawaitable(answer) else answer)
        except BaseException as error:
            if passes(error):
                raise
            return self._fail(registration, event, described(error), closed=closed)

    def _fail(self, registration: Registration, event: str, wrong: str, *, closed: bool) -> HookResult | None:
        if not closed:
            logger.warning("hook %r on %s is left out: %s", registration.name, event, wrong)
            return None
        logger.error("hook %r on %s denies, because it failed: %s", registration.name, event, wrong)
        return HookResult(action="deny", reason=f"The hook '{registration.name}' failed, so that nothing may go on.")
