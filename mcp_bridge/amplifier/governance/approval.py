"""Approvals: whether a call may run is what was remembered, what a person says, or what the hook declares.

The person is asked through the client, in both eras; where that cannot be, whoever runs `mcp-bridge approvals`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Literal

import anyio

from mcp_bridge.amplifier.approvals import grants, scope_of
from mcp_bridge.amplifier.decisions import OPTIONS, RESULT_KEYS
from mcp_bridge.amplifier.models import HookResult
from mcp_bridge.approvals.decisions import Decision, How, Scope, Subject
from mcp_bridge.approvals.policy import Policy
from mcp_bridge.contracts.context import CallContext
from mcp_bridge.contracts.errors import (
    ApprovalDeclined,
    InvalidAnswer,
    MissingCapability,
    QuestionExpired,
    ToolUnavailable,
)
from mcp_bridge.contracts.tool import ToolCall

logger = logging.getLogger("mcp_bridge.approvals")

_RUNNING: ContextVar[tuple[ToolCall, CallContext] | None] = ContextVar("running", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One question about one call. `options` are None where nobody says; `timeout` is in seconds, None for none.

    `about` is what else the question is about: an answer that is to be passed on, say.
    """

    tool: str
    arguments: Any
    prompt: str
    options: tuple[Any, ...] | None = None
    timeout: float | None = None
    default: Literal["allow", "deny"] = "deny"
    about: Any = None
    kind: str = "tool"


class During:
    """The block in which a call is the one that hooks run for; a class, because every event enters one."""

    __slots__ = ("_running", "_token")

    def __init__(self, call: ToolCall, ctx: CallContext) -> None:
        self._running = (call, ctx)

    def __enter__(self) -> None:
        self._token = _RUNNING.set(self._running)

    def __exit__(self, *_: object) -> None:
        _RUNNING.reset(self._token)


class Asking:
    """Finds out whether calls may run, as its `policy` says; without one, by asking the person at the client."""

    def __init__(self, policy: Policy | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.policy = policy or Policy()
        self._clock = clock

    async def decide(self, call: ToolCall, ctx: CallContext, asked: HookResult) -> bool:
        """Whether the call may go on: what the person chose, a denial where they declined, else the hook's default.

        Raises Overloaded where too many questions wait already.
        """
        case = Case(
            tool=call.name,
            arguments=call.arguments,
            prompt=asked.approval_prompt or f"Allow the tool '{call.name}' to run?",
            options=tuple(asked.approval_options) if asked.approval_options else None,
            timeout=asked.approval_timeout,
            default=asked.approval_default,
            about=_about(asked, call.kind),
            kind=call.kind,
        )
        return (await self.settle(case, ctx)).allowed

    def during(self, call: ToolCall, ctx: CallContext) -> During:
        """Let what runs in the block, such as a hook, ask about this call: see `running`."""
        return During(call, ctx)

    def running(self) -> tuple[ToolCall, CallContext] | None:
        """The call whose hooks run, if any do."""
        return _RUNNING.get()

    async def settle(self, case: Case, ctx: CallContext) -> Decision:
        """Decide a case, remember what is to be remembered, and write down who has decided. Raises as `decide`."""
        subject = Subject.of(
            case.tool,
            case.arguments,
            case.prompt,
            kind=case.kind,
            principal=ctx.principal or "",
            session=ctx.session,
            about=case.about,
        )
        options = case.options if case.options is not None else self._options(subject)
        known = await self._known(subject, options, ctx.since)
        decision = known or await self._asked(case, options, subject, ctx)
        if decision.again:
            return decision
        if decision.how in {"elicitation", "terminal"} and decision.scope in {"session", "always"}:
            decision = await self._remember(subject, decision)
        if self.policy.audit is not None:
            await self.policy.audit.note(subject, decision)
        return decision

    async def _known(self, subject: Subject, options: tuple[Any, ...], since: float | None) -> Decision | None:
        """What was remembered, where it could be chosen again; the answer to what was asked `since` comes first."""
        began = self._clock()
        remembered = self.policy.remembered
        grant = await remembered.find(subject, set(map(scope_of, options))) if remembered is not None else None
        if grant is None or (since is not None and grant.at >= since):
            return None
        logger.info("tool %r: allowed, as remembered (%s, %s)", subject.tool, grant.scope, grant.id[:12])
        return Decision(scope=grant.scope, how="remembered", seconds=self._clock() - began)

    async def _asked(self, case: Case, options: tuple[Any, ...], subject: Subject, ctx: CallContext) -> Decision:
        """What a person says, the first who can be asked; or the default. `seconds` are those of the person."""
        began = self._clock()
        try:
            with anyio.fail_after(case.timeout):
                decision = await self._by_person(case, options, subject, ctx)
        except (MissingCapability, ToolUnavailable, QuestionExpired) as error:
            decision = _by_default(case, "default", f"nobody could be asked: {error}")
        except TimeoutError:
            decision = _by_default(case, "timeout", "nobody answered in time")
        if decision.how in {"default", "timeout"} and decision.allowed:
            await ctx.attended()
        return decision if decision.seconds is not None else replace(decision, seconds=self._clock() - began)

    async def _by_person(self, case: Case, options: tuple[Any, ...], subject: Subject, ctx: CallContext) -> Decision:
        """Raises what asking the client does, where nobody is at a terminal either."""
        try:
            answer = await ctx.ask(case.prompt, Literal[options])
        except (ApprovalDeclined, InvalidAnswer) as error:  # whoever answers, says nothing that allows
            logger.warning("tool %r: denied, because the answer was none: %s", case.tool, _line(error))
            return Decision(scope="deny", how="elicitation")
        except (MissingCapability, ToolUnavailable):
            scope = await self._at_the_desk(case, options, ctx)
            if scope is None:
                raise
            logger.info("tool %r: somebody at a terminal said %s", case.tool, scope)
            return Decision(scope=scope, how="terminal")
        logger.info("tool %r: a person said %r", case.tool, answer.data if answer.accepted else answer.action)
        scope = scope_of(answer.data) if answer.accepted else "deny"
        return Decision(scope=scope, how="elicitation", seconds=answer.seconds, again=answer.again)

    async def _at_the_desk(self, case: Case, options: tuple[Any, ...], ctx: CallContext) -> Scope | None:
        if self.policy.desk is None:
            return None
        scopes = [scope for scope in dict.fromkeys(map(scope_of, options)) if scope != "deny"]
        with ctx.paused():
            return await self.policy.desk.ask(case.tool, case.arguments, case.prompt, scopes)

    async def _remember(self, subject: Subject, decision: Decision) -> Decision:
        """The decision as it holds: once, where nothing is remembered, or no session can be told from others."""
        remembered = self.policy.remembered
        if remembered is None or (decision.scope == "session" and not subject.session):
            return replace(decision, scope="once")
        await remembered.keep(subject, decision.scope)
        return decision

    def _options(self, subject: Subject) -> tuple[str, ...]:
        """The policy's own without those that remember, where nothing could be; if none then allows, the plain ones."""
        void: set[Scope] = set() if subject.session else {"session"}
        if self.policy.remembered is None:
            void |= {"session", "always"}
        options = tuple(option for option in self.policy.options if scope_of(option) not in void)
        return options if any(map(grants, options)) else OPTIONS


def _about(asked: HookResult, kind: str) -> Any:
    """What is to be passed on: an answer, or what a prompt has come to; None before a tool has run."""
    data = asked.data or {}
    if kind == "prompt":
        return [data.get("prompt"), data.get("messages")]
    return next((data[key] for key in RESULT_KEYS if key in data), None)


def _by_default(case: Case, how: How, why: str) -> Decision:
    allowed = case.default == "allow"
    words = "allowed" if allowed else "denied"
    logger.warning("tool %r: %s by default, because %s", case.tool, words, _line(why).rstrip("."))
    return Decision(scope="once" if allowed else "deny", how=how)


def _line(said: object) -> str:
    """What a client may have worded, as one line of the log."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in str(said))
