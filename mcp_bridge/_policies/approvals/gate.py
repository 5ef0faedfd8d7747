"""Asks for approval of calls. The policy `approval` and the hooks of Amplifier modules use it.

A question is resolved in this order:

1. A decision that a user has given earlier for the same call, and wanted to be remembered, applies (`grants.py`).
2. A call that a question cannot show whole is denied, unless the settings allow that.
3. The client asks the user, in every protocol version. If it cannot, the desk asks users at terminals, who run
   `mcp-bridge approvals` (`desk.py`). If there is a page, the desk asks the users of both at the same time as the
   client, and the first answer counts.
4. If no user can be asked, or none answers in time, the default of the question applies.

Each decision is recorded in the call, for the audit trail, and in the audit log of approvals.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import anyio

from mcp_bridge._contracts.errors import (
    ApprovalDeclined,
    CallError,
    InvalidAnswer,
    MissingCapability,
    QuestionExpired,
    ToolUnavailable,
)
from mcp_bridge._contracts.running_call import PolicyDecision, RunningCall
from mcp_bridge._policies.approvals.decisions import USERS, ApprovalDecision, ApprovalSubject, Scope
from mcp_bridge._policies.approvals.desk import DeskAnswer, OpenQuestion, QuestionDesk
from mcp_bridge._policies.approvals.options import DEFAULT_OPTIONS, is_grant, parse_option_scope
from mcp_bridge._policies.approvals.policy import ApprovalPolicy
from mcp_bridge._policies.approvals.shown_call import MAX_SHOWN, ShownText, show_arguments, show_prompt
from mcp_bridge._runtime.terminal_text import escape_line

if TYPE_CHECKING:
    from mcp_bridge._contracts.question import Answer

logger = logging.getLogger("mcp_bridge.approvals")

_TOO_LONG = (
    f"The user cannot be asked: a question shows at most {MAX_SHOWN:,} characters of a call, and this one has "
    "more. Send less in one call. The operator can set approvals.truncate: true."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalQuestion:
    """One question about one call. `options` is None if its author declares none; `timeout` is in seconds.

    `about` is a further value to approve, such as the result of the call; with it, the arguments are not shown.
    `details` are shown instead of the arguments.
    """

    tool: str
    arguments: Any
    prompt: str
    options: tuple[Any, ...] | None = None
    timeout: float | None = None
    default: Literal["allow", "deny"] = "deny"
    about: Any = None
    details: Any = None
    kind: str = "tool"

    def show(self) -> ShownText:
        """Return the text for the user: the prompt, and the arguments of a call that has not run yet."""
        prompt = show_prompt(self.prompt)
        if not self.details and (self.about is not None or not self.arguments):
            return prompt
        arguments = show_arguments(self.details or self.arguments)
        return ShownText(f"{prompt.text}\n{arguments.text}", prompt.is_whole and arguments.is_whole)


class ApprovalGate:
    """Decides whether calls may run, by a `policy`; without one, it asks the user of the client."""

    def __init__(self, policy: ApprovalPolicy | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.policy = policy or ApprovalPolicy()
        self._clock = clock

    async def resolve_question(self, question: ApprovalQuestion, ctx: RunningCall) -> ApprovalDecision:
        """Return the user's decision; the question's default applies if no user can be asked, or none answers.

        The decision is remembered if the user wants that, and audited. Raises Overloaded if too many questions are
        pending.
        """
        subject, options = self._prepare(question, ctx)
        decision = await self._find_remembered(subject, options, ctx.since)
        if decision is None and not self.policy.truncates and not question.show().is_whole:
            decision = ApprovalDecision(scope="deny", how="default", reason=_TOO_LONG)
        if decision is None:
            decision = await self._ask(question, options, ctx)
        return await self._record_decision(subject, decision, ctx)

    async def find_decision(self, question: ApprovalQuestion, ctx: RunningCall) -> ApprovalDecision | None:
        """Return the remembered decision about a question, without asking the user."""
        subject, options = self._prepare(question, ctx)
        return await self._find_remembered(subject, options, ctx.since)

    async def find_late_decision(self, question: ApprovalQuestion, ctx: RunningCall) -> ApprovalDecision | None:
        """Return the decision in the user's late answer to a question that timed out.

        Return None if the client's next request has no answer.
        """
        subject, options = self._prepare(question, ctx)
        decision = await _read_decision(question, ctx.wait_for_late_answer(question.show().text, Literal[options]))
        if decision is None:
            return None
        return await self._record_decision(subject, decision, ctx)

    def _prepare(self, question: ApprovalQuestion, ctx: RunningCall) -> tuple[ApprovalSubject, tuple[Any, ...]]:
        """Return the subject of a question, and its options.

        A question without options has those of the policy, except those that cannot be remembered. If none of these
        allows the call, it has DEFAULT_OPTIONS.
        """
        subject = ApprovalSubject.for_call(
            question.tool,
            question.arguments,
            question.prompt,
            kind=question.kind,
            principal=ctx.principal or "",
            session=ctx.session,
            about=question.about,
        )
        if question.options is not None:
            return subject, question.options
        unavailable: set[Scope] = set()
        if self.policy.grants is None:
            unavailable = {"session", "always"}
        elif not subject.session:
            unavailable = {"session"}
        options = tuple(option for option in self.policy.options if parse_option_scope(option) not in unavailable)
        if not any(map(is_grant, options)):
            options = DEFAULT_OPTIONS
        return subject, options

    async def _find_remembered(
        self, subject: ApprovalSubject, options: tuple[Any, ...], since: float | None
    ) -> ApprovalDecision | None:
        """Return a remembered decision whose scope is one of the options.

        If another instance has already asked the user, at the time `since`, a newer decision does not count.
        """
        if self.policy.grants is None:
            return None
        began = self._clock()
        grant = await self.policy.grants.find_grant(subject, set(map(parse_option_scope, options)))
        if grant is None or (since is not None and grant.at >= since):
            return None
        logger.info("tool %r: allowed, as remembered (%s, %s)", subject.tool, grant.scope, grant.id[:12])
        return ApprovalDecision(scope=grant.scope, how="remembered", seconds=self._clock() - began)

    async def _ask(self, question: ApprovalQuestion, options: tuple[Any, ...], ctx: RunningCall) -> ApprovalDecision:
        """Return the user's decision, or the default of the question."""
        default: Scope = "once" if question.default == "allow" else "deny"
        began = self._clock()
        try:
            with anyio.fail_after(question.timeout):
                decision = await self._ask_user(question, options, ctx)
        except (MissingCapability, ToolUnavailable, QuestionExpired) as error:
            _log_default(question, f"the user cannot be asked: {error}")
            decision = ApprovalDecision(scope=default, how="default", reason=self._explain(error))
        except TimeoutError:
            _log_default(question, "the user did not answer in time")
            reason = f"No user answered within {question.timeout:g} seconds. Retry the call to ask again."
            decision = ApprovalDecision(scope=default, how="timeout", reason=reason)
        if decision.how in {"default", "timeout"} and decision.is_allowed:
            # The client's next request may have the user's answer, and a denial must prevail over the default.
            late_answer = ctx.wait_for_late_answer(question.show().text, Literal[options])
            decision = await _read_decision(question, late_answer) or decision
        if decision.seconds is None:
            decision = replace(decision, seconds=self._clock() - began)
        return decision

    async def _ask_user(
        self, question: ApprovalQuestion, options: tuple[Any, ...], ctx: RunningCall
    ) -> ApprovalDecision:
        """Ask the user at the client, else those at the desk. Raises the errors of `ctx.ask` if none can be asked."""
        desk = self.policy.desk
        if desk is not None and desk.asks_with_clients:
            return await _ask_everyone(desk, question, options, ctx)
        try:
            return await _ask_client(question, options, ctx)
        except (MissingCapability, ToolUnavailable):
            if desk is None:
                raise
            with ctx.release_holds(), _ask_desk(desk, question, options, ctx) as open_question:
                answer = await desk.wait_for_answer(open_question)
            if answer is None:
                raise
            return _read_desk_answer(question, answer)

    def _explain(self, error: CallError) -> str:
        """Explain to the model why no user could be asked, and what to do."""
        if isinstance(error, QuestionExpired):
            return f"No user answered. {error.message}"
        reason = error.message.rstrip(".")
        if isinstance(error, MissingCapability):
            reason = "the client does not support elicitation"
        return f"No user could be asked: {reason}. {self.policy.describe_alternatives()}"

    async def _record_decision(
        self, subject: ApprovalSubject, decision: ApprovalDecision, ctx: RunningCall
    ) -> ApprovalDecision:
        """Record a decision, and remember it if the user wants that.

        Returns the decision with its effective scope: `once` if it cannot be remembered.
        """
        verdict: Literal["allowed", "denied"] = "allowed" if decision.is_allowed else "denied"
        ctx.record_decision(PolicyDecision("approval", verdict, decision.decider))
        if decision.is_repeated:
            return decision
        if self.policy.desk is not None:
            self.policy.desk.record_decision(subject, decision)
        if decision.how in USERS and decision.scope in {"session", "always"}:
            if self.policy.grants is None or (decision.scope == "session" and not subject.session):
                decision = replace(decision, scope="once")
            else:
                await self.policy.grants.add_grant(subject, decision.scope)
        if self.policy.audit is not None:
            await self.policy.audit.append_decision(subject, decision)
        return decision


async def _ask_everyone(
    desk: QuestionDesk, question: ApprovalQuestion, options: tuple[Any, ...], ctx: RunningCall
) -> ApprovalDecision:
    """Ask the user at the client and those at the desk at the same time. The first answer counts."""
    decisions: list[ApprovalDecision] = []
    errors: list[CallError] = []

    async def ask_client() -> None:
        try:
            decision = await _ask_client(question, options, ctx)
            # A user at the desk may have answered first.
            if open_question.is_open:
                decisions.append(decision)
                open_question.outcome = "client"
            tasks.cancel_scope.cancel()
        except (MissingCapability, ToolUnavailable) as error:
            errors.append(error)
            desk.leave_to_users(open_question)
        except CallError as error:
            errors.append(error)
            tasks.cancel_scope.cancel()

    with ctx.release_holds(), _ask_desk(desk, question, options, ctx, is_client_asked=True) as open_question:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask_client)
            try:
                await desk.wait_for_answer(open_question)
            except QuestionExpired as error:
                # If it were raised here, the task group would raise an ExceptionGroup.
                errors.insert(0, error)
            tasks.cancel_scope.cancel()
    if open_question.answer is not None:
        # With a shared store, another instance may continue the call, and would not know this answer.
        await ctx.wait_until_owned()
        return _read_desk_answer(question, open_question.answer)
    if not decisions:
        raise errors[0]
    return decisions[0]


async def _ask_client(question: ApprovalQuestion, options: tuple[Any, ...], ctx: RunningCall) -> ApprovalDecision:
    """Return the decision of the user at the client. Raises as `CallContext.ask` does."""
    from mcp_bridge._contracts.question import ApprovalForm

    async def put_form() -> Any:
        # There is only one question, so its key may be any text.
        answers = await ctx.put({"": ApprovalForm(question.show().text, Literal[options])})
        return answers[""]

    decision = await _read_decision(question, put_form())
    assert decision is not None
    return decision


def _ask_desk(
    desk: QuestionDesk,
    question: ApprovalQuestion,
    options: tuple[Any, ...],
    ctx: RunningCall,
    *,
    is_client_asked: bool = False,
) -> AbstractContextManager[OpenQuestion]:
    scopes: list[Scope] = []
    for option in options:
        scope = parse_option_scope(option)
        if scope != "deny" and scope not in scopes:
            scopes.append(scope)
    arguments = question.details or question.arguments
    return desk.ask_approval(
        question.tool, arguments, question.prompt, scopes, principal=ctx.principal, is_client_asked=is_client_asked
    )


def _read_desk_answer(question: ApprovalQuestion, answer: DeskAnswer) -> ApprovalDecision:
    logger.info("tool %r: a user (%s) chose %s", question.tool, answer.channel, answer.value)
    return ApprovalDecision(scope=answer.value, how=answer.channel, user=answer.user)


async def _read_decision(
    question: ApprovalQuestion, pending_answer: Awaitable[Answer[Any] | None]
) -> ApprovalDecision | None:
    """Wait for an answer, and return its decision; None without an answer. An invalid answer denies."""
    try:
        answer = await pending_answer
    except ApprovalDeclined as error:
        logger.warning("tool %r: denied, because the answer is unusable: %s", question.tool, escape_line(str(error)))
        return ApprovalDecision(scope="deny", how="elicitation")
    except InvalidAnswer as error:
        problems = escape_line("; ".join(error.details) or str(error))
        logger.warning("tool %r: denied, because the answers are not valid: %s", question.tool, problems)
        reason = f"The client's answers to the question were not valid: {problems}. Retry the call to ask again."
        return ApprovalDecision(scope="deny", how="elicitation", reason=reason)
    if answer is None:
        return None
    if answer.accepted:
        choice = answer.data
        scope = parse_option_scope(choice)
    else:
        choice = answer.action
        scope = "deny"
    logger.info("tool %r: the user chose %r", question.tool, choice)
    return ApprovalDecision(scope=scope, how="elicitation", seconds=answer.seconds, is_repeated=answer.again)


def _log_default(question: ApprovalQuestion, reason: str) -> None:
    outcome = "allowed" if question.default == "allow" else "denied"
    logger.warning("tool %r: %s by default, because %s", question.tool, outcome, escape_line(reason).rstrip("."))
