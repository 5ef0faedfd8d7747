"""Approvals of calls: a remembered decision, else the user's choice, else the default of the question.

The client asks the user, in every protocol version. If it cannot, `mcp-bridge approvals` asks at a terminal. If there
is a page, it and the terminals ask at the same time as the client.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalQuestion:
    """One question about one call. `options` is None if its author declares none; `timeout` is in seconds.

    `about` is what else the user approves, such as the result of the call. `details` are shown instead of the
    arguments.
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
        """Return what the user reads: the prompt, and the arguments of a call that has not run yet."""
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

    async def resolve_question(self, case: ApprovalQuestion, ctx: RunningCall) -> ApprovalDecision:
        """Return the user's decision; the question's default applies if no user can be asked, or none answers.

        The decision is remembered if the user wants that, and audited. Raises Overloaded if too many questions are
        pending.
        """
        subject = _describe_subject(case, ctx)
        options = case.options if case.options is not None else self._get_options(subject)
        known = await self._find_remembered(subject, options, ctx.since) or self._reject_long(case)
        decision = known or await self._ask(case, options, ctx)
        return await self._record_decision(subject, decision, ctx)

    def _reject_long(self, case: ApprovalQuestion) -> ApprovalDecision | None:
        """Return a denial for a call that no question can show whole, unless the settings allow that."""
        if self.policy.truncates or case.show().is_whole:
            return None
        reason = (
            f"The user cannot be asked: a question shows at most {MAX_SHOWN:,} characters of a call, and this one has "
            "more. Send less in one call. The operator can set approvals.truncate: true."
        )
        return ApprovalDecision(scope="deny", how="default", reason=reason)

    async def find_decision(self, case: ApprovalQuestion, ctx: RunningCall) -> ApprovalDecision | None:
        """Return the remembered decision of a question, without asking the user."""
        subject = _describe_subject(case, ctx)
        options = case.options if case.options is not None else self._get_options(subject)
        return await self._find_remembered(subject, options, ctx.since)

    async def find_late_decision(self, case: ApprovalQuestion, ctx: RunningCall) -> ApprovalDecision | None:
        """Return the user's late answer to a question that timed out, None if the client's next request has none."""
        subject = _describe_subject(case, ctx)
        options = case.options if case.options is not None else self._get_options(subject)
        decision = await _read_decision(case, ctx.wait_for_late_answer(case.show().text, Literal[options]))
        return await self._record_decision(subject, decision, ctx) if decision is not None else None

    async def _record_decision(
        self, subject: ApprovalSubject, decision: ApprovalDecision, ctx: RunningCall
    ) -> ApprovalDecision:
        verdict: Literal["allowed", "denied"] = "allowed" if decision.is_allowed else "denied"
        ctx.record_decision(PolicyDecision("approval", verdict, decision.decider))
        if decision.is_repeated:
            return decision
        if self.policy.desk is not None:
            self.policy.desk.record_decision(subject, decision)
        if decision.how in USERS and decision.scope in {"session", "always"}:
            decision = await self._store_decision(subject, decision)
        if self.policy.audit is not None:
            await self.policy.audit.append_decision(subject, decision)
        return decision

    async def _find_remembered(
        self, subject: ApprovalSubject, options: tuple[Any, ...], since: float | None
    ) -> ApprovalDecision | None:
        """Return a remembered decision that these options offer, unless it is newer than a question asked `since`."""
        if self.policy.grants is None:
            return None
        began = self._clock()
        grant = await self.policy.grants.find_grant(subject, set(map(parse_option_scope, options)))
        if grant is None or (since is not None and grant.at >= since):
            return None
        logger.info("tool %r: allowed, as remembered (%s, %s)", subject.tool, grant.scope, grant.id[:12])
        return ApprovalDecision(scope=grant.scope, how="remembered", seconds=self._clock() - began)

    async def _ask(self, case: ApprovalQuestion, options: tuple[Any, ...], ctx: RunningCall) -> ApprovalDecision:
        began = self._clock()
        try:
            with anyio.fail_after(case.timeout):
                decision = await self._ask_user(case, options, ctx)
        except (MissingCapability, ToolUnavailable, QuestionExpired) as error:
            _log_default(case, f"the user cannot be asked: {error}")
            decision = ApprovalDecision(scope=_get_default(case), how="default", reason=self._explain(error))
        except TimeoutError:
            _log_default(case, "the user did not answer in time")
            reason = f"No user answered within {case.timeout:g} seconds. Retry the call to ask again."
            decision = ApprovalDecision(scope=_get_default(case), how="timeout", reason=reason)
        if decision.how in {"default", "timeout"} and decision.is_allowed:
            late = ctx.wait_for_late_answer(case.show().text, Literal[options])
            decision = await _read_decision(case, late) or decision
        return decision if decision.seconds is not None else replace(decision, seconds=self._clock() - began)

    def _explain(self, error: CallError) -> str:
        """Explain to the model why no user could be asked, and what to do."""
        if isinstance(error, QuestionExpired):
            return f"No user answered. {error.message}"
        why = "the client does not support elicitation" if isinstance(error, MissingCapability) else error.message
        return f"No user could be asked: {why.rstrip('.')}. {self.policy.describe_alternatives()}"

    async def _ask_user(self, case: ApprovalQuestion, options: tuple[Any, ...], ctx: RunningCall) -> ApprovalDecision:
        """Raises the errors of `ctx.ask` if no user elsewhere can be asked either."""
        desk = self.policy.desk
        if desk is not None and desk.is_beside_clients:
            return await self._ask_everyone(desk, case, options, ctx)
        try:
            return await _ask_client(case, options, ctx)
        except (MissingCapability, ToolUnavailable):
            if desk is None:
                raise
            with ctx.release_holds(), _ask_desk(desk, case, options, ctx) as question:
                answer = await desk.wait_for_answer(question)
            if answer is None:
                raise
            return _read_desk_answer(case, answer)

    async def _ask_everyone(
        self, desk: QuestionDesk, case: ApprovalQuestion, options: tuple[Any, ...], ctx: RunningCall
    ) -> ApprovalDecision:
        """Ask the user at the client and those at the desk at the same time. The first answer counts."""
        decisions: list[ApprovalDecision] = []
        errors: list[CallError] = []

        async def ask_client() -> None:
            try:
                decision = await _ask_client(case, options, ctx)
                if question.is_open:
                    decisions.append(decision)
                    question.outcome = "client"
                tasks.cancel_scope.cancel()
            except (MissingCapability, ToolUnavailable) as error:
                errors.append(error)
                desk.leave_to_users(question)
            except CallError as error:
                errors.append(error)
                tasks.cancel_scope.cancel()

        with ctx.release_holds(), _ask_desk(desk, case, options, ctx, is_beside=True) as question:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask_client)
                try:
                    await desk.wait_for_answer(question)
                except QuestionExpired as error:  # outside of the group, it would be in an ExceptionGroup
                    errors.insert(0, error)
                tasks.cancel_scope.cancel()
        if question.answer is not None:
            await ctx.wait_until_owned()
            return _read_desk_answer(case, question.answer)
        if not decisions:
            raise errors[0]
        return decisions[0]

    async def _store_decision(self, subject: ApprovalSubject, decision: ApprovalDecision) -> ApprovalDecision:
        """Return the decision with its effective scope: `once` if it cannot be remembered."""
        if self.policy.grants is None or (decision.scope == "session" and not subject.session):
            return replace(decision, scope="once")
        await self.policy.grants.add_grant(subject, decision.scope)
        return decision

    def _get_options(self, subject: ApprovalSubject) -> tuple[str, ...]:
        """Leave out options that cannot be remembered; return DEFAULT_OPTIONS if none of the others allows."""
        unavailable: set[Scope] = set() if subject.session else {"session"}
        if self.policy.grants is None:
            unavailable |= {"session", "always"}
        options = tuple(option for option in self.policy.options if parse_option_scope(option) not in unavailable)
        return options if any(map(is_grant, options)) else DEFAULT_OPTIONS


async def _ask_client(case: ApprovalQuestion, options: tuple[Any, ...], ctx: RunningCall) -> ApprovalDecision:
    """Return the decision of the user at the client. Raises as `CallContext.ask` does."""
    from mcp_bridge._contracts.question import ApprovalForm

    async def put_form() -> Any:
        return (await ctx.put({"": ApprovalForm(case.show().text, Literal[options])}))[""]

    decision = await _read_decision(case, put_form())
    assert decision is not None
    return decision


def _ask_desk(
    desk: QuestionDesk, case: ApprovalQuestion, options: tuple[Any, ...], ctx: RunningCall, *, is_beside: bool = False
) -> AbstractContextManager[OpenQuestion]:
    scopes = [scope for scope in dict.fromkeys(map(parse_option_scope, options)) if scope != "deny"]
    return desk.ask_approval(
        case.tool, case.details or case.arguments, case.prompt, scopes, principal=ctx.principal, is_beside=is_beside
    )


def _read_desk_answer(case: ApprovalQuestion, answer: DeskAnswer) -> ApprovalDecision:
    logger.info("tool %r: a user (%s) chose %s", case.tool, answer.channel, answer.value)
    return ApprovalDecision(scope=answer.value, how=answer.channel, user=answer.user)


def _describe_subject(case: ApprovalQuestion, ctx: RunningCall) -> ApprovalSubject:
    return ApprovalSubject.for_call(
        case.tool,
        case.arguments,
        case.prompt,
        kind=case.kind,
        principal=ctx.principal or "",
        session=ctx.session,
        about=case.about,
    )


async def _read_decision(case: ApprovalQuestion, asked: Awaitable[Answer[Any] | None]) -> ApprovalDecision | None:
    """Return the decision that the user's answer is, or None without an answer."""
    try:
        answer = await asked
    except ApprovalDeclined as error:
        logger.warning("tool %r: denied, because the answer is unusable: %s", case.tool, escape_line(str(error)))
        return ApprovalDecision(scope="deny", how="elicitation")
    except InvalidAnswer as error:
        problems = escape_line("; ".join(error.details) or str(error))
        logger.warning("tool %r: denied, because the answers are not valid: %s", case.tool, problems)
        reason = f"The client's answers to the question were not valid: {problems}. Retry the call to ask again."
        return ApprovalDecision(scope="deny", how="elicitation", reason=reason)
    if answer is None:
        return None
    logger.info("tool %r: the user chose %r", case.tool, answer.data if answer.accepted else answer.action)
    scope = parse_option_scope(answer.data) if answer.accepted else "deny"
    return ApprovalDecision(scope=scope, how="elicitation", seconds=answer.seconds, is_repeated=answer.again)


def _get_default(case: ApprovalQuestion) -> Scope:
    return "once" if case.default == "allow" else "deny"


def _log_default(case: ApprovalQuestion, reason: str) -> None:
    outcome = "allowed" if case.default == "allow" else "denied"
    logger.warning("tool %r: %s by default, because %s", case.tool, outcome, escape_line(str(reason)).rstrip("."))
