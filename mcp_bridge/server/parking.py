"""Parking: stateless calls that wait for answers between two requests (docs/architecture.md, decision 15)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from secrets import token_urlsafe
from typing import Any

import anyio
from anyio.abc import TaskGroup, TaskStatus

from mcp_bridge.contracts.errors import InvalidAnswer, Overloaded, QuestionExpired
from mcp_bridge.contracts.question import Answer
from mcp_bridge.contracts.tool import ToolResult
from mcp_bridge.server.context import ServedContext
from mcp_bridge.server.questions import TRIES, Posed, Unfit
from mcp_bridge.wire.values import plain

Answered = tuple[str, str, Any]
"""The key and the digest of a question, and what the client answered."""


class Pending:
    """One question that waits for its answer. What is answered goes into the `book`, for other instances."""

    def __init__(self, key: str, posed: Posed, book: list[Answered]) -> None:
        self.key = key
        self.posed = posed
        self._book = book
        self._problems: list[str] = []
        self._tries = 0
        self._settled = anyio.Event()
        self._answer: Any = None
        self._error: Exception | None = None

    def to_mcp(self) -> dict[str, Any]:
        """The question as an input request."""
        return self.posed.to_mcp(self._problems)

    def answer(self, raw: Any, *, seconds: float | None = None, again: bool = False) -> bool:
        """Take an answer, see `Answer` for what is known of it; whether the question is settled by it."""
        self._book.append((self.key, self.posed.digest, _kept(raw)))
        try:
            read = self.posed.read(raw)
            self._answer = replace(read, seconds=seconds, again=again) if isinstance(read, Answer) else read
        except Unfit as error:
            self._problems, self._tries = error.problems, self._tries + 1
            if self._tries < TRIES:
                return False
            self._error = InvalidAnswer("The question was not answered with what it asks for.", details=error.problems)
        except Exception as error:  # an author's own validator: whoever asked gets it
            self._error = error
        self._settled.set()
        return True

    def expire(self) -> None:
        """Have nobody wait for the answer any more."""
        self._error = QuestionExpired("The call is over, so nobody can be asked.")
        self._settled.set()

    async def settled(self) -> Any:
        """Wait for the answer. Raises InvalidAnswer, QuestionExpired."""
        await self._settled.wait()
        if self._error is not None:
            raise self._error
        return self._answer


def _kept(raw: Any) -> Any:
    """An answer as it is noted: one that nests too deep to be sealed fits no question anyway."""
    try:
        return plain(raw)
    except ValueError:
        return None


class Parked:
    """One call in a task of its own, which outlives the request that made it.

    `known` are questions that were answered before, on whichever instance, and `new` those that another has asked and
    this one hears the answers of, `seconds` later; `offered` are answers that came unasked, which settle questions that
    carry a key of the author's. `answered` is what was asked before the handler began,
    `given` what the `NeedsInput` that it waits for now has been answered.
    """

    def __init__(
        self,
        park: Park,
        context: ServedContext,
        known: Iterable[Answered],
        offered: Mapping[str, Any],
        *,
        new: Iterable[Answered] = (),
        seconds: float | None = None,
    ) -> None:
        self.context = context
        self.scope = anyio.CancelScope()
        self.handle = ""
        self.taken = anyio.Event()
        self.answered: list[Answered] = []
        self.given: list[Answered] = []
        self.pending: dict[str, Pending] = {}
        self.sent: dict[str, Pending] = {}
        self._park = park
        self._known = [*((one, None, True) for one in known), *((one, seconds, False) for one in new)]
        self._offered = dict(offered)
        self._count = 0
        self._news = anyio.Event()
        self._outcome: ToolResult | Exception | None = None
        self._ended = False

    async def run(self, work: Callable[[], Awaitable[ToolResult]]) -> None:
        """Carry out the call; never raises, whoever waits in `next` gets what happened."""
        try:
            with self.scope:
                self._outcome = await work()
                self._end()
                await self._park.collected(self)
        except Exception as error:  # nothing that the pipeline lets through: it is for the request's own task
            self._outcome = error
        finally:
            self._end()
            self._park.forget(self)
            for pending in self.pending.values():
                pending.expire()  # whoever asked from a thread is still there, on trio

    def _end(self) -> None:
        self._ended = True
        self._news.set()

    async def put(self, questions: Mapping[str, Posed], *, needed: bool) -> Mapping[str, Any]:
        """Ask: the call waits here until a later request has brought the answers. Raises as `CallContext.ask`."""
        book = self._book(needed=needed)
        asked = {key: Pending(key, posed, book) for key, posed in questions.items()}
        try:
            for key, pending in asked.items():
                if not self._knows(key, pending):
                    self._ask(key, pending)
            return {key: await pending.settled() for key, pending in asked.items()}
        finally:
            for name, pending in list(self.pending.items()):
                if pending in asked.values():
                    del self.pending[name]
            if not self.pending:
                self._park.release(self)

    async def attended(self) -> None:
        """Wait for the next request, where the last has been answered."""
        await self._park.collected(self)

    async def next(self) -> ToolResult | None:
        """Wait until the call has ended, or asks (None: see `pending`). Raises what went wrong beside the tool."""
        while not self._ended:
            if self.pending:
                await anyio.lowlevel.checkpoint()  # questions put in one turn go out together
                if self.pending:
                    return None
            await self._news.wait()
            self._news = anyio.Event()
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome or ToolResult(success=False, error="The call was cancelled.", code="cancelled")

    def answer(self, responses: Mapping[str, Any]) -> None:
        """Take the answers of a request; others than those that were asked for are ignored."""
        for name, pending in self.sent.items():
            # what was withdrawn meanwhile is not answered, whatever is asked under its name now
            if name in responses and self.pending.get(name) is pending and pending.answer(responses[name]):
                del self.pending[name]
        if not self.pending:
            self._park.release(self)

    def _book(self, *, needed: bool) -> list[Answered]:
        """Where answers are noted: what a `NeedsInput` brought is good for one run of the handler, and no other."""
        if self.context.begun:
            return []  # nobody takes this up elsewhere
        if not needed:
            return self.answered
        self.given = []
        return self.given

    def _ask(self, key: str, pending: Pending) -> None:
        if self._ended:
            pending.expire()
            return
        self._park.admit(self)
        name = key
        while not name or name in self.pending:
            self._count += 1
            name = f"q{self._count}"
        self.pending[name] = pending
        self._news.set()

    def _knows(self, key: str, pending: Pending) -> bool:
        """Whether the question is settled by what was answered before it was asked here."""
        for known in [each for each in self._known if each[0][:2] == (key, pending.posed.digest)]:
            self._known.remove(known)
            answered, seconds, again = known
            if pending.answer(answered[2], seconds=seconds, again=again):
                return True
        return bool(key) and key in self._offered and pending.answer(self._offered.pop(key))


class Park:
    """The calls in tasks of their own: at most `size` of them wait for answers, each for `ttl` seconds."""

    def __init__(self, *, size: int, ttl: float) -> None:
        self._size = size
        self._ttl = ttl
        self._asking: set[Parked] = set()
        self._waiting: dict[str, Parked] = {}
        self._tasks: TaskGroup | None = None
        self._running = anyio.Event()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Own the calls until cancelled, and cancel them then."""
        try:
            async with anyio.create_task_group() as self._tasks:
                self._running.set()
                task_status.started()
                await anyio.sleep_forever()
        finally:
            self._tasks, self._running = None, anyio.Event()

    async def begin(self, parked: Parked, work: Callable[[], Awaitable[ToolResult]]) -> None:
        """Start a call."""
        await self._running.wait()  # a request may come before the task that runs the park
        assert self._tasks is not None
        self._tasks.start_soon(parked.run, work)

    def admit(self, parked: Parked) -> None:
        """Let a call ask. Raises Overloaded when too many others have questions that are not answered."""
        if parked not in self._asking and len(self._asking) >= self._size and not self._make_room():
            raise Overloaded("Too many calls wait for answers already. Try again later.")
        self._asking.add(parked)

    def _make_room(self) -> bool:
        """End the call that waits longest among those that can begin again from what their clients carry."""
        for waiting in self._waiting.values():
            if not waiting.context.begun:
                waiting.scope.cancel()
                self.forget(waiting)
                return True
        return False

    def release(self, parked: Parked) -> None:
        """All that a call has asked is answered; one that somebody still has to come for keeps its place."""
        if parked.handle not in self._waiting:
            self._asking.discard(parked)

    def keep(self, parked: Parked) -> str:
        """Let a call wait for its answers; the handle to take it up by, which is good for one time."""
        parked.handle = token_urlsafe(16)
        parked.taken = anyio.Event()
        parked.scope.deadline = anyio.current_time() + self._ttl
        parked.sent = dict(parked.pending)
        parked.context.serve(None)
        self._waiting[parked.handle] = parked
        return parked.handle

    def take(self, handle: str) -> Parked | None:
        """The call that waits under this handle, or None where it is not, or not any more."""
        parked = self._waiting.pop(handle, None)
        if parked is not None:
            parked.scope.deadline = float("inf")
            parked.taken.set()
        return parked

    def drop(self, handle: str) -> None:
        """Cancel the call that waits under this handle: nobody will come for it."""
        if (parked := self.take(handle)) is not None:
            parked.scope.cancel()

    async def collected(self, parked: Parked) -> None:
        """Wait for the request that fetches a result: a call may go on, and end, before it is answered."""
        if parked.handle in self._waiting:
            await parked.taken.wait()

    def forget(self, parked: Parked) -> None:
        """A call has ended, answered or not."""
        self._waiting.pop(parked.handle, None)
        self._asking.discard(parked)
