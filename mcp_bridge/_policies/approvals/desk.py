"""The desk: asks users of the page and at terminals the questions of running calls.

A call puts its question on the desk and waits for the first valid answer. Each open page and each connected terminal is
an `Approver`. The call waits at most `ttl` seconds while an approver who may answer is connected. If none is, or
connects in time, `wait_for_answer` returns None, and the caller applies its default. If the client asks its user the
same question, the call waits without an approver too.
"""

from __future__ import annotations

import itertools
import json
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, cast

import anyio

from mcp_bridge._contracts.errors import QuestionExpired
from mcp_bridge._json_schema.secret_names import find_secret_values
from mcp_bridge._policies.approvals.decisions import ApprovalDecision, ApprovalSubject, Scope
from mcp_bridge._policies.approvals.shown_call import show_arguments, show_prompt
from mcp_bridge._runtime.redaction import Redactor

_MAX_JSON = 1_000
"""The maximum number of characters of arguments that are shown as JSON; longer ones are shown as a list."""
MAX_DECISIONS = 200
"""How many of the latest decisions are kept for pages."""
CONNECT_TIME = 1.0
"""Seconds that an approval waits for a user at a terminal who may be about to connect: `mcp-bridge approvals` searches
for bridges twice a second."""

Channel = Literal["page", "terminal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeskAnswer:
    """An answer of a user: a scope for an approval, or the result of an elicitation for a form.

    Attributes:
        channel: Where the user is.
        user: The principal of the user; empty if it is unknown.
    """

    value: Any
    channel: Channel
    user: str = ""


@dataclass(eq=False, kw_only=True)
class OpenQuestion:
    """A question without an answer. Its texts are redacted.

    Attributes:
        scopes: The scopes from which the user of an approval chooses; empty for a form.
        params: The parameters of the elicitation, for a form.
        check: Raises ValueError for an invalid answer to the form.
        principal: The principal of the call that asks.
        is_client_asked: Whether the client is asked too. The question then waits even if no user is connected.
        answer: The first valid answer.
        outcome: Why a question has no answer: `withdrawn`, or `client` if the client answered.
        settled: Wakes the call that waits for the answer: set with the answer, and when the last user has left. In the
            second case, a new event replaces it, because the question may go on waiting.
    """

    number: int
    tool: str
    message: str
    arguments: str
    scopes: Sequence[Scope] = ()
    params: Mapping[str, Any] | None = None
    check: Callable[[Any], object] | None = None
    principal: str | None = None
    is_client_asked: bool = False
    since: float = field(default_factory=time.time)
    answer: DeskAnswer | None = None
    outcome: Literal["withdrawn", "client"] = "withdrawn"
    settled: anyio.Event = field(default_factory=anyio.Event)

    @property
    def is_open(self) -> bool:
        """Whether the question still waits for an answer, from the client or from a user."""
        return self.answer is None and self.outcome != "client"


class RecordedDecision(NamedTuple):
    """A decision about a call; `time` is in seconds since 1970."""

    time: float
    subject: ApprovalSubject
    decision: ApprovalDecision


class Approver(Protocol):
    """Users who can answer, in a terminal or on the page.

    Attributes:
        channel: Where the users are.
        user: Their principal; empty if it is unknown.
    """

    @property
    def channel(self) -> Channel: ...

    @property
    def user(self) -> str: ...

    def can_answer(self, question: OpenQuestion) -> bool:
        """Return whether the users may see and answer a question."""


class QuestionListener(Protocol):
    """Receives the questions at a desk."""

    def __call__(self, question: OpenQuestion, *, is_settled: bool) -> None:
        """Receive a question when it is asked, and again when it is settled: it has an answer or was withdrawn."""


class QuestionDesk:
    """Asks all users who can answer. The first valid answer counts.

    Args:
        wait: Seconds that an approval waits for a user to connect.
        ttl: Seconds that a question waits for the answer of a connected user.
        redactor: Removes secrets from the questions.
        serves_terminals: Whether users at terminals can connect, once `is_open` is set.

    Attributes:
        asks_with_clients: Whether users are asked for approval at the same time as the client, not only if the client
            cannot ask.
        is_open: Whether users at terminals can connect now.
        decisions: The latest decisions about calls.
        on_question: Called with each question, and again once it is settled.
        on_decision: Called with each decision.
    """

    def __init__(
        self,
        *,
        wait: float = 0.0,
        ttl: float = math.inf,
        redactor: Redactor | None = None,
        serves_terminals: bool = False,
    ) -> None:
        self.asks_with_clients = False
        self.serves_terminals = serves_terminals
        self.is_open = False
        self.decisions: deque[RecordedDecision] = deque(maxlen=MAX_DECISIONS)
        self.on_question: QuestionListener = lambda question, *, is_settled: None
        self.on_decision: Callable[[RecordedDecision], None] = lambda _: None
        self._wait = wait
        self._ttl = ttl
        self._redactor = redactor or Redactor()
        self._numbers = itertools.count(1)
        self._approvers: list[Approver] = []
        self._waiting: dict[int, OpenQuestion] = {}
        self._approver_added = anyio.Event()
        self._expected_until = -math.inf

    @property
    def questions(self) -> Sequence[OpenQuestion]:
        """The open questions."""
        return [question for question in self._waiting.values() if question.is_open]

    def find_question(self, number: int) -> OpenQuestion | None:
        """Return the question with this number if it is not answered."""
        question = self._waiting.get(number)
        if question is None or not question.is_open:
            return None
        return question

    @contextmanager
    def ask_approval(
        self,
        tool: str,
        arguments: Any,
        prompt: str,
        scopes: Sequence[Scope],
        *,
        principal: str | None = None,
        is_client_asked: bool = False,
    ) -> Iterator[OpenQuestion]:
        """Ask whether a call may run. At the end of the block, a question without an answer is withdrawn."""
        question = self._make_question(tool, arguments, prompt, principal)
        question.scopes = scopes
        question.is_client_asked = is_client_asked
        with self._hold_question(question):
            yield question

    async def ask_form(
        self, tool: str, params: Mapping[str, Any], check: Callable[[Any], object], *, principal: str | None
    ) -> DeskAnswer | None:
        """Ask the users of the page to fill in a form, and return the first valid answer.

        Return None if no user who can answer is connected, or all have left.

        Args:
            tool: The name of the tool that asks.
            params: The parameters of `elicitation/create`.
            check: Raises ValueError for an invalid answer.
            principal: The principal of the call that asks.

        Raises QuestionExpired as `wait_for_answer` does.
        """
        question = self._make_question(tool, None, str(params.get("message", "")), principal)
        question.params = self._redactor.redact_value(dict(params))
        question.check = check
        with self._hold_question(question):
            return await self.wait_for_answer(question)

    async def wait_for_answer(self, question: OpenQuestion) -> DeskAnswer | None:
        """Return the answer, or None if there is none and no user who can answer is connected.

        Raises QuestionExpired if users are connected and do not answer in time. If the client is asked too, the time
        limit of the client's question applies instead.
        """
        while question.answer is None:
            if not question.is_client_asked and not await self._wait_for_user(question):
                # An answer may have arrived during the wait.
                break
            ttl = math.inf if question.is_client_asked else self._ttl
            with anyio.move_on_after(ttl) as scope:
                await question.settled.wait()
            if scope.cancelled_caught:
                raise QuestionExpired(f"No answer within {self._ttl:g} seconds. Retry the call.")
        return question.answer

    def leave_to_users(self, question: OpenQuestion) -> None:
        """Report that the client cannot ask. The question then waits only for the users who are connected."""
        question.is_client_asked = False
        self._wake(question)

    def record_decision(self, subject: ApprovalSubject, decision: ApprovalDecision) -> None:
        """Keep a decision for pages."""
        row = RecordedDecision(time.time(), subject, decision)
        self.decisions.append(row)
        self.on_decision(row)

    def expect_users(self) -> None:
        """Let approvals wait a second for a user at a terminal, who may be about to connect."""
        self._expected_until = anyio.current_time() + CONNECT_TIME

    def add_approver(self, approver: Approver) -> None:
        """Let questions wait for these users if they can answer them."""
        self._approvers.append(approver)
        self._approver_added.set()
        self._approver_added = anyio.Event()

    def remove_approver(self, approver: Approver) -> None:
        """End the wait of questions that only these users could answer."""
        self._approvers.remove(approver)
        for question in self.questions:
            if not question.is_client_asked and not self._has_user(question):
                self._wake(question)

    def answer_question(self, question: OpenQuestion, value: Any, approver: Approver) -> None:
        """Settle an open question. Raises ValueError for an invalid answer."""
        if question.params is None:
            if value != "deny" and value not in question.scopes:
                raise ValueError(f"choose one of: {', '.join((*question.scopes, 'deny'))}")
            value = cast(Scope, value)
        elif question.check is not None:
            question.check(value)
        question.answer = DeskAnswer(value=value, channel=approver.channel, user=approver.user)
        question.settled.set()
        self.on_question(question, is_settled=True)

    def _make_question(self, tool: str, arguments: Any, message: str, principal: str | None) -> OpenQuestion:
        redactor = self._redactor
        argument_redactor = Redactor(find_secret_values(arguments))
        arguments = argument_redactor.redact_value(redactor.redact_value(arguments))
        text = json.dumps(arguments, ensure_ascii=False, default=repr)
        if len(text) > _MAX_JSON:
            text = f"\n{show_arguments(arguments).text}"
        return OpenQuestion(
            number=next(self._numbers),
            tool=redactor.redact_text(tool),
            message=show_prompt(redactor.redact_text(argument_redactor.redact_text(message))).text,
            arguments=redactor.redact_text(text),
            principal=principal,
        )

    @contextmanager
    def _hold_question(self, question: OpenQuestion) -> Iterator[None]:
        """Show the question to the users during the block."""
        self._waiting[question.number] = question
        self.on_question(question, is_settled=False)
        try:
            yield
        finally:
            del self._waiting[question.number]
            if question.answer is None:
                self.on_question(question, is_settled=True)

    async def _wait_for_user(self, question: OpenQuestion) -> bool:
        """Wait until a user who can answer is connected, at most `wait` seconds. Return whether one is connected."""
        began = anyio.current_time()
        # Only approvals have scopes. Forms do not wait, because terminals, which connect later, show no forms.
        while not self._has_user(question) and question.scopes:
            seconds = max(began + self._wait, self._expected_until) - anyio.current_time()
            if seconds <= 0:
                break
            with anyio.move_on_after(seconds):
                await self._approver_added.wait()
        return self._has_user(question)

    def _has_user(self, question: OpenQuestion) -> bool:
        return any(approver.can_answer(question) for approver in self._approvers)

    @staticmethod
    def _wake(question: OpenQuestion) -> None:
        """Let the waiting call check again whether a user can answer."""
        event = question.settled
        question.settled = anyio.Event()
        event.set()
