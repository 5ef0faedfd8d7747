"""How serving ends: the first signal drains what is unanswered, the second ends at once.

The bridge owns the signals, not a library: the SDK's stdio loses the calls in flight.
"""

from __future__ import annotations

import _thread
import atexit
import logging
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

import anyio
from anyio.abc import TaskStatus

from mcp_bridge.runtime.supervisor import Supervisor
from mcp_bridge.runtime.thread_pool import Soon, from_any_thread

if TYPE_CHECKING:
    from mcp_bridge.server.endpoint import Endpoint

logger = logging.getLogger("mcp_bridge.transports")

DRAIN = 10.0
"""Seconds that calls in flight have after the end of input or a signal."""
CLOSING = 1.0
"""Seconds that cancelled calls have to say so, and after that open streams to close."""
HURRY = 0.25
"""The same after a second signal."""
LAST = 1.0
"""Seconds after a second signal in which the process ends whatever holds it."""
ENDING = "The bridge is shutting down."


class Ledger:
    """How many requests are unanswered, and whether those who wait for them are in a hurry."""

    def __init__(self) -> None:
        self._open = 0
        self._news: anyio.Event | None = None  # made by whoever waits: a call should not pay for it
        self.hurried = False

    def opened(self) -> None:
        """One request more."""
        self._open += 1

    async def settled(self) -> None:
        """One request less; async, because the SDK awaits it for requests that end without an answer."""
        self._open -= 1
        if not self._open and self._news is not None:
            self._news.set()

    def hurry(self) -> None:
        """Have nobody wait any longer than it takes to be polite."""
        self.hurried = True
        if self._news is not None:
            self._news.set()

    async def idle(self, patience: float, hurried: float = 0.0) -> bool:
        """Wait until all are answered, so long at most, in a hurry `hurried`; whether they were in time."""
        began = anyio.current_time()
        while self._open:
            left = began + (hurried if self.hurried else patience) - anyio.current_time()
            if left <= 0:
                break
            if self._news is None or self._news.is_set():
                self._news = anyio.Event()
            with anyio.move_on_after(left):
                await self._news.wait()
        return not self._open


async def wind_down(endpoint: Endpoint, ledger: Ledger, drain: float, left: float | None = None) -> None:
    """Wait until the calls in flight are answered; those that are not in time are cancelled, and their clients told.

    `left` is what is left of the `drain` time.
    """
    if await ledger.idle(drain if left is None else left):
        return
    endpoint.end_questions()  # whoever asks a person may still answer without
    if not ledger.hurried and await ledger.idle(CLOSING / 2):
        return
    if not ledger.hurried:
        logger.warning("calls that were not answered within %g seconds are cancelled", drain)
    endpoint.end_calls()
    await ledger.idle(CLOSING, HURRY)


def goes_on(method: str, params: Mapping[str, Any] | None) -> bool:
    """Whether a request belongs to work in flight: it is taken while the bridge ends, new ones are not."""
    return method == "ping" or (params or {}).get("requestState") is not None


class Interrupted(BaseException):
    """A signal has come before anything is served. No KeyboardInterrupt: that would leave the loop in its middle."""


class Ending:
    """The signals that end serving, for the length of the block: SIGINT, SIGTERM, and SIGHUP unless it is ignored.

    Until anybody is `heard` the first one raises `Interrupted`, which the block ends with in silence; in an event loop
    that is `starting` it does so in the middle of an import alone, and cancels otherwise. Then the
    first drains, the second has everything end now, and a second later ends the process if something holds it; so
    does the first, some time after the drain. A third ends it on the spot. The exit code is always 0. The handlers
    stay to the end of the process if they are `lasting`. Where signals cannot be had, nothing is done.
    """

    def __init__(self, *, lasting: bool = False, signals: bool = True, guard: Supervisor | None = None) -> None:
        self._lasting = lasting
        self._guard = guard
        self._direct: Counter[int] = Counter()
        self._wanted = signals
        self._depth = 0
        self._before: dict[int, Any] = {}
        self._count = 0
        self._drained = False
        self._acts: tuple[Callable[[], object], Callable[[], object]] | None = None
        self._soon: Soon | None = None
        self._cancel: Callable[[], object] = lambda: None
        self._patience = 0.0
        self._heard = False
        self._over = _thread.allocate_lock()

    def __enter__(self) -> Self:
        self._depth += 1
        if self._depth == 1 and self._wanted and threading.current_thread() is threading.main_thread():
            self._over.acquire()
            for number in _numbers():
                self._before[number] = signal.signal(number, self._came)
            if self._guard is not None:
                self._before[self._guard.relay_signal] = signal.signal(self._guard.relay_signal, self._came)
                self._guard.start_counting()
            if self._lasting:
                atexit.register(self._deaf)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        self._depth -= 1
        if self._depth:  # whoever took the signals gives them back
            return False
        if not self._lasting and self._before:
            for number, before in self._before.items():
                signal.signal(number, before)
            self._over.release()
        return _is_interruption(error)

    @contextmanager
    def starting(self, cancel: Callable[[], object]) -> Iterator[None]:
        """Inside, until anybody is heard, a signal that interrupts no import calls `cancel` in this event loop.

        An exception between any two instructions of the loop would leave it, or a lock, half done.
        """
        self._cancel, self._soon = cancel, from_any_thread()
        try:
            yield
        finally:
            self._soon = None

    @contextmanager
    def heard(self, drain: Callable[[], object], now: Callable[[], object], patience: float) -> Iterator[None]:
        """Inside, the first signal calls `drain` in this event loop, which takes at most `patience`, the next `now`."""
        self._acts, self._patience, self._heard = (drain, now), patience, True
        self._soon = from_any_thread()
        if self._count:  # something that was imported has caught the interruption
            self._soon(cast("Callable[[], None]", drain))
        try:
            yield
        finally:
            self._soon = None

    def drains(self) -> None:
        """The end has begun without a signal: the first one that comes is the second word."""
        self._drained = True

    def _came(self, number: int, frame: FrameType | None) -> None:
        """A signal. This runs in the main thread between any two instructions, so it waits for no lock."""
        if not self._is_news(number):
            return
        final = self._drained or self._count > 1 or not self._heard
        self._drained = True
        if self._count > 2:
            os._exit(0)
        with suppress(RuntimeError):  # no thread is to be had
            _thread.start_new_thread(self._last, (LAST if final else self._patience + 4 * CLOSING,))
        if not self._heard and (self._soon is None or _imports(frame)):
            raise Interrupted
        act = self._acts[final] if self._acts is not None else self._cancel
        if self._soon is not None:
            with suppress(RuntimeError):  # the loop has just ended
                self._soon(cast("Callable[[], None]", act))

    def _is_news(self, number: int) -> bool:
        """Count a signal; whether it is more than the twin of one that came by way of the guard, or directly."""
        self._direct[number] += 1
        if self._guard is None:
            self._count += 1
            return True
        known, self._count = self._count, 0
        for each in self._before:
            if each != self._guard.relay_signal:
                self._count += max(self._direct[each], self._guard.count_signals(each))
        return self._count > known

    def _last(self, seconds: float) -> None:
        """End the process if something holds it: a loop that is blocked, a call that will not be cancelled."""
        if not self._over.acquire(timeout=seconds):
            os._exit(0)
        self._over.release()

    def _deaf(self) -> None:
        """At the very end signals are ignored: the interpreter would give them back their own effect."""
        for number in self._before:
            signal.signal(number, signal.SIG_IGN)


def _imports(frame: FrameType | None) -> bool:
    """Whether a module is being imported there."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _is_interruption(error: BaseException | None) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return error.split(Interrupted)[1] is None
    return isinstance(error, Interrupted)


def _numbers() -> list[signal.Signals]:
    """The signals that end serving. `nohup` ignores SIGHUP, which stays so."""
    hangup = getattr(signal, "SIGHUP", None)
    numbers = [signal.SIGINT, signal.SIGTERM]
    if hangup is not None and signal.getsignal(hangup) != signal.SIG_IGN:
        numbers.append(hangup)
    return numbers


async def on_signals(
    drain: Callable[[], None],
    now: Callable[[], None],
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Call `drain` at the first SIGINT or SIGTERM, `now` at each later one. Where signals cannot be had, do nothing."""
    try:
        receiver = anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM)
        with receiver as signals:
            task_status.started()
            act = drain
            async for _ in signals:
                act()
                act = now
    except (NotImplementedError, ValueError, RuntimeError):  # Windows' event loop, or not the main thread
        task_status.started()
