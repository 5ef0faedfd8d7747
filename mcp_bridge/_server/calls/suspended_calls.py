"""Calls of the stateless era. They are suspended between two requests, until their questions are answered.

In 2026-07-28 a server cannot send requests. A call that asks the user something therefore takes several rounds
(`CallRounds`), and its code waits between them:

1. The first request starts a `SuspendedCall`, a task that outlives the request. `SuspendedCalls` owns all of them.
2. The code asks: `put` adds its questions to `pending`. `wait` returns None to the task of the request. The response
   has the questions and the sealed `CallState`. `SuspendedCalls.suspend` gives the call a handle and a deadline.
3. The client sends the request again, with the answers and the state. `SuspendedCalls.take` finds the call by its
   handle, and `answer` settles the pending questions, so `put` returns in the code. An invalid answer stays pending and
   is asked again.
4. The call ends or asks again. If the call has ended between two requests, its task waits until the next one has
   fetched the result.

Another instance has no such task, and starts the call again from the `CallState`: the answers in it settle the
questions the code asks again, each by its key and digest. This is possible only until the handler has begun, or after
it has returned `NeedsInput` (docs/decisions/suspended-calls.md and docs/decisions/resuming-elsewhere.md).
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from secrets import token_urlsafe
from typing import Any

import anyio
from anyio.abc import TaskGroup, TaskStatus
from anyio.lowlevel import current_token

from mcp_bridge._contracts.errors import Overloaded
from mcp_bridge._contracts.handlers import NeedsInput
from mcp_bridge._contracts.question import Question
from mcp_bridge._contracts.tool import ToolResult
from mcp_bridge._protocol.peer.connection import report_failure
from mcp_bridge._protocol.wire.values import to_plain
from mcp_bridge._runtime.cancellation import is_being_cancelled
from mcp_bridge._server.calls.context import ServedCall
from mcp_bridge._server.questions.pending import AnswerRecord, PendingQuestion
from mcp_bridge._server.questions.requests import QuestionRequest, SealedQuestion, to_request


class SuspendedCall:
    """One call in a separate task. It outlives the request that started it.

    Args:
        calls: The owner of all such calls.
        context: The context of the call.
        state: The answers that other instances have received. It is empty if the call starts here.
        unrequested_answers: The answers in the first request. They settle questions to which the author gave a key.

    Attributes:
        handle: The handle that resumes the suspended call, or an empty text before its first suspension.
        resumed: Set when the suspended call is resumed.
        answered: Records of questions that were asked before the handler began.
        needed: Records of the questions of the `NeedsInput` the handler waits for.
        pending: The questions without a valid answer, by their names in the response.
        sent: The questions of the last response, by their names.
    """

    def __init__(
        self, calls: SuspendedCalls, context: ServedCall, state: CallState, unrequested_answers: Mapping[str, Any]
    ) -> None:
        self.context = context
        self.loop: object = current_token()
        self.scope = anyio.CancelScope()
        self.handle = ""
        self.resumed = anyio.Event()
        self.answered: list[AnswerRecord] = []
        self.needed: list[AnswerRecord] = []
        self.pending: dict[str, PendingQuestion] = {}
        self.sent: dict[str, PendingQuestion] = {}
        self._calls = calls
        # Answers from before their questions were asked here: the record, the age of the question in seconds, and
        # whether an earlier run of the call has already had the answer.
        self._early_answers: list[tuple[AnswerRecord, float | None, bool]] = []
        for record in state.answered:
            self._early_answers.append((record, None, True))
        for record in state.new:
            self._early_answers.append((record, state.seconds, False))
        self._unrequested_answers = dict(unrequested_answers)
        # The number of names that were made for questions.
        self._name_count = 0
        self._changed = anyio.Event()
        self._outcome: ToolResult | Exception | None = None
        self._has_ended = False

    async def run(self, work: Callable[[], Awaitable[ToolResult]]) -> None:
        """Carry out the call. Never raises: `wait` returns or raises the outcome."""
        try:
            with self.scope:
                self._outcome = await work()
                self._end()
                await self._calls.wait_until_resumed(self)
        except Exception as error:
            # This is an error of the server: the pipeline turns errors of tools into results. The task of the request
            # raises it.
            self._outcome = error
        except anyio.get_cancelled_exc_class() as error:
            if is_being_cancelled(error):
                raise
            # The code of the call has cancelled its own task.
            self._outcome = report_failure("The call", error)
        finally:
            self._end()
            self._calls.remove_call(self)
            for pending in self.pending.values():
                # On trio, a thread that has asked is not cancelled with the task, and still waits.
                pending.expire()

    def _end(self) -> None:
        self._has_ended = True
        self._changed.set()

    async def put(self, questions: Mapping[str, QuestionRequest], *, needed: bool) -> Mapping[str, Any]:
        """Ask questions, and wait until later requests have brought the answers. Raises as `CallContext.ask` does.

        `needed` is whether the questions are those of a `NeedsInput`.
        """
        records = self._select_records(needed=needed)
        new_questions = {key: PendingQuestion(key, request, records) for key, request in questions.items()}
        try:
            for key, pending in new_questions.items():
                if not self._answer_early(key, pending):
                    self._ask(key, pending)
            answers = {key: await pending.wait() for key, pending in new_questions.items()}
            self.sent = {name: pending for name, pending in self.sent.items() if pending not in new_questions.values()}
            return answers
        finally:
            for name, pending in list(self.pending.items()):
                if pending in new_questions.values():
                    del self.pending[name]
            if not self.pending:
                self._calls.release(self)

    async def wait_for_late_answer(self, question: QuestionRequest) -> Any:
        """Wait for the next request, and return its answer to a withdrawn question, or None. Raises InvalidAnswer."""
        await self._calls.wait_until_resumed(self)
        for pending in self.sent.values():
            if pending.is_settled and pending.request.digest == question.digest:
                return await pending.wait()
        return None

    async def wait_until_owned(self) -> None:
        """Wait for the client's next request, unless only this instance can receive it."""
        if self._calls.is_shared:
            await self._calls.wait_until_resumed(self)

    async def wait(self) -> ToolResult | None:
        """Wait until the call has ended, and return its result, or None as soon as it asks (see `pending`).

        Raises errors of the server.
        """
        while not self._has_ended:
            if self.pending:
                # Let other tasks of the call ask, too, so that questions of the same time are sent together.
                await anyio.lowlevel.checkpoint()
                if self.pending:
                    return None
            await self._changed.wait()
            self._changed = anyio.Event()
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome or ToolResult(success=False, error="The call was cancelled.", code="cancelled")

    def answer(self, responses: Mapping[str, Any]) -> None:
        """Accept the answers of a request. Answers without a question are ignored."""
        for name, pending in self.sent.items():
            if name not in responses:
                continue
            # In the meantime, the call may have withdrawn the question, and asked another one under its name.
            if self.pending.get(name) is not pending:
                pending.answer_late(responses[name])
            elif pending.answer(responses[name]):
                del self.pending[name]
        if not self.pending:
            self._calls.release(self)

    def _select_records(self, *, needed: bool) -> list[AnswerRecord]:
        """Return the list to which the records of new answers are added, for other instances.

        The records for a `NeedsInput` apply only to the next run of the handler.
        """
        if self.context.has_begun:
            # No other instance can continue this call.
            return []
        if not needed:
            return self.answered
        self.needed = []
        return self.needed

    def _ask(self, key: str, pending: PendingQuestion) -> None:
        """Add a question to `pending`, under its key or another name. Raises Overloaded."""
        if self._has_ended:
            pending.expire()
            return
        self._calls.admit(self)
        name = key
        while not name or name in self.pending:
            self._name_count += 1
            name = f"q{self._name_count}"
        self.pending[name] = pending
        self._changed.set()

    def _answer_early(self, key: str, pending: PendingQuestion) -> bool:
        """Settle a question by an answer that arrived before it was asked. Return False without a valid one."""
        for early_answer in self._early_answers.copy():
            (record_key, digest, value), seconds, again = early_answer
            if (record_key, digest) == (key, pending.request.digest):
                self._early_answers.remove(early_answer)
                if pending.answer(value, seconds=seconds, again=again):
                    return True
        if not key or key not in self._unrequested_answers:
            return False
        return pending.answer(self._unrequested_answers.pop(key))


class SuspendedCalls:
    """Owns the suspended calls. At most `size` calls wait for answers, each for at most `ttl` seconds.

    If there are several clients, one of them has at most three quarters of these places. If it asks more, or if all
    places are taken, the call with the oldest question ends: one that can restart, or else one of the client with the
    most calls. If the server has only one client, the new question is rejected instead.

    If `is_shared`, other instances can continue the calls.
    """

    def __init__(self, *, size: int, ttl: float, is_shared: bool) -> None:
        self.is_shared = is_shared
        self._size = size
        # Three quarters, rounded up.
        self._share = -(-size * 3 // 4)
        self._ttl = ttl
        # The calls with open questions, and those whose clients have not fetched the result.
        self._asking: set[SuspendedCall] = set()
        # The number of calls in `_asking` of each client.
        self._counts: Counter[str | None] = Counter()
        # The suspended calls by handle, the oldest first.
        self._suspended: dict[str, SuspendedCall] = {}
        self._tasks: TaskGroup | None = None
        self._running = anyio.Event()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Own the calls until cancelled. The cancellation also cancels the calls."""
        try:
            async with anyio.create_task_group() as self._tasks:
                self._running.set()
                task_status.started()
                await anyio.sleep_forever()
        finally:
            self._tasks = None
            self._running = anyio.Event()

    async def start(self, call: SuspendedCall, work: Callable[[], Awaitable[ToolResult]]) -> None:
        """Start the task of a call."""
        # A request may arrive before `run` has begun.
        await self._running.wait()
        assert self._tasks is not None
        self._tasks.start_soon(call.run, work)

    def admit(self, call: SuspendedCall) -> None:
        """Allow a call to ask. Raises Overloaded when too many others have unanswered questions."""
        if call in self._asking:
            return
        client = call.context.client
        has_share = client is None or self._counts[client] < self._share
        has_room = has_share and len(self._asking) < self._size
        if not has_room and not self._make_room(client, has_share=has_share):
            raise Overloaded("The server is at capacity: too many calls are waiting for answers. Retry later.")
        self._asking.add(call)
        self._counts[client] += 1

    def _make_room(self, client: str | None, *, has_share: bool) -> bool:
        """Cancel the call with the oldest question whose loss costs least. Return False if there is none."""
        victim = self._choose_victim(client, has_share=has_share)
        if victim is None:
            return False
        victim.scope.cancel()
        self.remove_call(victim)
        return True

    def _choose_victim(self, client: str | None, *, has_share: bool) -> SuspendedCall | None:
        # A call that has not begun can restart from the state that its client has, so nothing is lost. A client that
        # has used up its share loses one of its own.
        for call in self._suspended.values():
            if not call.context.has_begun and (has_share or call.context.client == client):
                return call
        # If there is only one client, its new question is rejected instead.
        if client is None:
            return None
        counts = dict(self._counts)
        counts[client] = counts.get(client, 0) + 1
        heaviest_client = max(counts, key=lambda name: counts[name])
        return next((call for call in self._suspended.values() if call.context.client == heaviest_client), None)

    @property
    def count(self) -> int:
        """The number of calls waiting for their clients."""
        return len(self._suspended)

    def release(self, call: SuspendedCall) -> None:
        """Stop counting a call without open questions, unless its client still has to fetch the result."""
        if call.handle not in self._suspended:
            self._stop_counting(call)

    def suspend(self, call: SuspendedCall) -> str:
        """Suspend a call until its answers arrive. Return the handle that resumes it once."""
        call.handle = token_urlsafe(16)
        call.resumed = anyio.Event()
        call.scope.deadline = anyio.current_time() + self._ttl
        call.sent = dict(call.pending)
        call.context.set_request(None)
        self._suspended[call.handle] = call
        return call.handle

    def take(self, handle: str) -> SuspendedCall | None:
        """Resume the call with this handle and return it, or None if no such call is suspended here."""
        call = self._suspended.pop(handle, None)
        if call is not None:
            call.scope.deadline = float("inf")
            call.resumed.set()
        return call

    def cancel_suspended(self, handle: str) -> None:
        """Cancel the call with this handle, because no client will resume it."""
        call = self.take(handle)
        if call is not None:
            call.scope.cancel()

    async def wait_until_resumed(self, call: SuspendedCall) -> None:
        """Wait for the next request of the client. A call may continue and end before it arrives."""
        if call.handle in self._suspended:
            await call.resumed.wait()

    def remove_call(self, call: SuspendedCall) -> None:
        self._suspended.pop(call.handle, None)
        self._stop_counting(call)

    def _stop_counting(self, call: SuspendedCall) -> None:
        if call in self._asking:
            self._asking.remove(call)
            client = call.context.client
            self._counts[client] -= 1
            if not self._counts[client]:
                del self._counts[client]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallState:
    """The state of a call between two requests. The client gets it sealed, and returns it with the next request.

    Attributes:
        handle: Resumes the call on the instance where it is suspended.
        started: Whether a handler has begun, the call's own or one that it called, and has not ended with a
            `NeedsInput`. Then no other instance can continue the call, and all fields below are empty.
        answered: The answers so far.
        asked: The key and digest of each question that is open now, by its name in the request.
        needs: The `NeedsInput` the handler returned.
        since: When the open questions were asked, in seconds since 1970.
        new: Answers that no instance has acted upon yet.
    """

    handle: str = ""
    started: bool = False
    answered: Sequence[AnswerRecord] = ()
    asked: Mapping[str, Sequence[str]] = field(default_factory=dict)
    needs: NeedsInput | None = None
    since: float | None = None
    new: Sequence[AnswerRecord] = ()

    @property
    def seconds(self) -> float | None:
        """How many seconds ago the questions were asked, or None if the clocks of the two machines disagree."""
        if self.since is None:
            return None
        seconds = time.time() - self.since
        return seconds if seconds >= 0 else None

    @classmethod
    def from_call(cls, call: SuspendedCall, handle: str) -> CallState:
        """Return the state of a suspended call. Raises ValueError for a `NeedsInput` whose state is not JSON."""
        context = call.context
        if context.has_begun:
            return cls(handle=handle, started=True)
        question_digests = {name: (pending.key, pending.request.digest) for name, pending in call.pending.items()}
        needs = context.needs
        if needs is not None:
            version = context.protocol_version
            sealed_questions = {
                key: _to_sealed_question(question, version) for key, question in needs.questions.items()
            }
            needs = NeedsInput(sealed_questions, to_plain(needs.state))
        answers = (*call.answered, *call.needed)
        return cls(handle=handle, answered=answers, asked=question_digests, needs=needs, since=time.time())

    @classmethod
    def from_text(cls, text: str) -> CallState:
        """Return the state that `to_text` has encoded. The seal has already been verified."""
        data = json.loads(text)
        data["answered"] = [tuple(record) for record in data["answered"]]
        needs = data["needs"]
        if needs is not None:
            questions = {key: SealedQuestion(**question) for key, question in needs["questions"].items()}
            data["needs"] = NeedsInput(questions, needs["state"])
        return cls(**data)

    def to_text(self) -> str:
        """Return this state as JSON, to be sealed."""
        return json.dumps(asdict(self), separators=(",", ":"))

    def with_answers(self, responses: Mapping[str, Any]) -> CallState:
        """Return this state with the client's answers to the open questions."""
        new: list[AnswerRecord] = []
        for name, (key, digest) in self.asked.items():
            if name in responses:
                new.append((key, digest, responses[name]))
        return replace(self, new=new)


def _to_sealed_question(question: Question, version: str) -> SealedQuestion:
    """Return the question to seal, with the full schema of its answer. Clients may see only a part of it."""
    request = to_request(question, version)
    complete_question = SealedQuestion(request.method, request.params, request.form)
    # The restored question must have the same digest, or the answer would not be found.
    if to_request(complete_question, version).digest == request.digest:
        return complete_question
    return SealedQuestion(request.method, request.params)
