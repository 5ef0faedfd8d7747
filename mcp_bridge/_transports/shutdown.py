"""The shutdown of all transports: the first signal drains the calls in flight, the second ends the server at once.

ShutdownSignals turns signals into these two actions in every phase of the process, and `drain_calls` waits for calls.
"""

from __future__ import annotations

import _thread
import atexit
import logging
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, Self, cast

import anyio
from anyio.abc import TaskStatus

from mcp_bridge._protocol.peer.connection import Message, RequestCounter
from mcp_bridge._runtime.event_loop import is_importing, wake_on_signals
from mcp_bridge._runtime.platform import system
from mcp_bridge._runtime.thread_pool import CallSoon, make_call_soon

if TYPE_CHECKING:
    from mcp_bridge._runtime.platform.server_supervisor import Supervisor
    from mcp_bridge._server.endpoint import Endpoint

logger = logging.getLogger("mcp_bridge.transports")

DRAIN_TIMEOUT = 10.0
"""Seconds in which calls in flight may end after the end of input or a signal."""
CLOSE_TIMEOUT = 1.0
"""Seconds in which cancelled calls may send their responses, and then open streams may end."""
URGENT_TIMEOUT = 0.25
"""The seconds in place of CLOSE_TIMEOUT after a second signal."""
EXIT_DELAY = 1.0
"""Seconds from a second signal to the exit of the process, even if it is blocked."""
SHUTDOWN_MESSAGE = "The bridge is shutting down."


async def drain_calls(
    endpoint: Endpoint, counter: RequestCounter, drain: float, remaining: float | None = None
) -> None:
    """Wait until the calls in flight have their responses. Cancel those that take longer.

    `drain` is the whole time for calls in seconds, which the log names, and `remaining` the rest of it.
    """
    if remaining is None:
        remaining = drain
    if await counter.wait_until_idle(remaining):
        return
    # A call that waits for the user may have a result even without an answer.
    endpoint.calls.reject_questions()
    if not counter.is_urgent and await counter.wait_until_idle(CLOSE_TIMEOUT / 2):
        return
    if not counter.is_urgent:
        logger.warning("calls that did not end within %g seconds are cancelled", drain)
    endpoint.calls.cancel_calls()
    if not await counter.wait_until_idle(CLOSE_TIMEOUT, URGENT_TIMEOUT):
        endpoint.calls.abandon_calls()


def is_new_request(message: Message) -> bool:
    """Return whether a message is a new request, which the server rejects while it drains.

    Pings, and the next round of a call that has asked the user (`requestState`), belong to what is in flight.
    """
    method = message.get("method")
    if method is None or method == "ping" or "id" not in message:
        return False
    return (message.get("params") or {}).get("requestState") is None


class Interrupted(BaseException):
    """A signal has arrived before serving. It is not a KeyboardInterrupt, which would end the event loop."""


class ShutdownSignals:
    """Handles SIGINT, SIGTERM and SIGHUP (unless it is ignored), on Windows SIGBREAK, inside the block.

    What a signal does depends on the phase:

    1. Before the event loop runs, it raises `Interrupted`, and the block ends without an error.
    2. While the server starts (`handle_while_starting`), it raises `Interrupted` only during an import, and cancels
       otherwise: an exception between any two instructions could leave the event loop or a lock in an invalid state.
    3. While serving (`handle_while_serving`), the first signal drains, the second ends everything, and the third exits
       immediately. The process also exits a second after the second signal, or some time after the drain, if something
       still blocks it.

    The exit code is always 0. If `lasting`, the handlers stay until the process ends. Blocks can be nested: only the
    outermost one installs and restores handlers. Outside of the main thread, nothing is done.

    SIGHUP can instead restart what the process serves (`handle_restarts`).

    A supervisor (`guard`) relays signals, too, so one signal may arrive in two ways (`_is_new_signal`).
    """

    def __init__(self, *, lasting: bool = False, is_enabled: bool = True, guard: Supervisor | None = None) -> None:
        self._is_lasting = lasting
        self._guard = guard
        # The numbers of signals that have arrived directly.
        self._direct_counts: Counter[int] = Counter()
        self._is_enabled = is_enabled
        # The number of nested blocks.
        self._depth = 0
        self._previous_handlers: dict[int, Any] = {}
        self._signal_count = 0
        self._is_draining = False
        # The actions of the first and the second signal while serving.
        self._actions: tuple[Callable[[], object], Callable[[], object]] | None = None
        self._call_soon: CallSoon | None = None
        self._cancel: Callable[[], object] = lambda: None
        # The action of RESTART_SIGNAL, and whether the process was started in a terminal.
        self._restart: Callable[[], object] | None = None
        self._has_terminal = False
        self._drain_timeout = 0.0
        self._is_serving = False
        # Held until the end of the outermost block. `_exit_after` waits for it.
        self._end_lock = _thread.allocate_lock()

    def __enter__(self) -> Self:
        self._depth += 1
        if self._depth == 1 and self._is_enabled and threading.current_thread() is threading.main_thread():
            self._end_lock.acquire()
            numbers = system.list_shutdown_signals()
            if self._guard is not None:
                numbers.append(self._guard.relay_signal)
            for number in numbers:
                self._previous_handlers[number] = signal.signal(number, self._handle_signal)
            if self._guard is not None:
                self._guard.start_counting(system.list_shutdown_signals())
            if self._is_lasting:
                atexit.register(self._ignore_signals)
        return self

    def __exit__(self, error_type: object, error: BaseException | None, traceback: object) -> bool:
        self._depth -= 1
        # The outermost block restores the handlers.
        if self._depth:
            return False
        if not self._is_lasting and self._previous_handlers:
            for number, before in self._previous_handlers.items():
                signal.signal(number, before)
            self._end_lock.release()
        if isinstance(error, BaseExceptionGroup):
            return error.split(Interrupted)[1] is None
        return isinstance(error, Interrupted)

    @contextmanager
    def handle_while_starting(self, cancel: Callable[[], object]) -> Iterator[None]:
        """Until serving begins, let a signal inside the block call `cancel` in this event loop."""
        self._cancel = cancel
        with self._schedule_in_this_loop():
            yield

    @contextmanager
    def handle_while_serving(
        self, drain: Callable[[], object], end: Callable[[], object], timeout: float
    ) -> Iterator[None]:
        """Inside the block, let the first signal call `drain` in this event loop, and the next one `end`.

        Draining takes at most `timeout` seconds.
        """
        self._actions = (drain, end)
        self._drain_timeout = timeout
        self._is_serving = True
        with self._schedule_in_this_loop() as soon:
            # A signal has arrived already, but an imported module has caught `Interrupted`.
            if self._signal_count:
                soon(cast("Callable[[], None]", drain))
            yield

    def handle_restarts(self, restart: Callable[[], object]) -> None:
        """Let SIGHUP call `restart` while serving, instead of ending the server, unless the terminal was closed."""
        self._has_terminal = system.has_terminal()
        self._restart = restart
        if self._guard is not None:
            signals = [number for number in system.list_shutdown_signals() if number != system.RESTART_SIGNAL]
            self._guard.start_counting(signals)

    @contextmanager
    def _schedule_in_this_loop(self) -> Iterator[CallSoon]:
        """Let actions of signals run in the current event loop during the block."""
        self._call_soon = soon = make_call_soon()
        try:
            with wake_on_signals() if self._previous_handlers else nullcontext():
                yield soon
        finally:
            self._call_soon = None

    def begin_drain(self) -> None:
        """Note the start of a drain without a signal. The first signal then counts as the second."""
        self._is_draining = True

    def _handle_signal(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal. This runs in the main thread between any two instructions, so it must not take a lock."""
        if number == system.RESTART_SIGNAL and self._restart is not None:
            if self._is_draining:
                return
            if not self._has_terminal or system.has_terminal():
                if self._call_soon is not None:
                    self._call_soon(cast("Callable[[], None]", self._restart))
                return
        if not self._is_new_signal(number):
            return
        is_final = self._is_draining or self._signal_count > 1 or not self._is_serving
        self._is_draining = True
        if self._signal_count > 2:
            os._exit(0)
        # Draining is followed by several waits of at most CLOSE_TIMEOUT.
        delay = EXIT_DELAY if is_final else self._drain_timeout + 4 * CLOSE_TIMEOUT
        # The system may have no free thread.
        with suppress(RuntimeError):
            _thread.start_new_thread(self._exit_after, (delay,))
        if not self._is_serving and (self._call_soon is None or is_importing(frame)):
            raise Interrupted
        action = self._cancel
        if self._actions is not None:
            drain, end = self._actions
            action = end if is_final else drain
        if self._call_soon is not None:
            # The event loop may just have ended.
            with suppress(RuntimeError):
                self._call_soon(cast("Callable[[], None]", action))

    def _is_new_signal(self, number: int) -> bool:
        """Count a signal, and return whether it is a new one.

        A signal may arrive directly, through the supervisor, or in both ways. So the larger of the two counts is the
        number of signals.
        """
        self._direct_counts[number] += 1
        if self._guard is None:
            self._signal_count += 1
            return True
        total = 0
        for handled_signal in self._previous_handlers:
            if handled_signal != self._guard.relay_signal:
                total += max(self._direct_counts[handled_signal], self._guard.count_signals(handled_signal))
        # The same signal may arrive in the other way during this method, so comparing comes last.
        if total <= self._signal_count:
            return False
        self._signal_count = total
        return True

    def _exit_after(self, seconds: float) -> None:
        """Exit after `seconds`, unless the block has ended before. A blocked event loop may keep the process alive."""
        if not self._end_lock.acquire(timeout=seconds):
            os._exit(0)
        self._end_lock.release()

    def _ignore_signals(self) -> None:
        """Ignore the signals during the finalization of the interpreter, which restores their default handlers."""
        for number in self._previous_handlers:
            signal.signal(number, signal.SIG_IGN)


async def handle_signals(
    drain: Callable[[], None], end: Callable[[], None], *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    """Call `drain` at the first SIGINT or SIGTERM, and `end` at each later one.

    Does nothing where the event loop does not support signals.
    """
    try:
        receiver = anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM)
        with receiver as signals:
            task_status.started()
            action = drain
            async for _ in signals:
                action()
                action = end
    except (NotImplementedError, ValueError, RuntimeError):
        # The event loop of Windows supports no signals, nor does any thread but the main one.
        task_status.started()
