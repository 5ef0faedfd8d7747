"""The context variables with the call, and the run of an agent, in which modules and hooks run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import anyio

from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall
from mcp_bridge._policies.approvals.gate import ApprovalQuestion
from mcp_bridge._runtime.cancellation import Deadline

RUNNING_CALL: ContextVar[BoundCall | None] = ContextVar("running_call", default=None)
"""The call of the running hooks. Their questions to the user are about this call."""
AGENT_CALL: ContextVar[RunningCall | None] = ContextVar("agent_call", default=None)
"""The call that runs the agent, for providers that use the client's model."""
TOOL_CALL: ContextVar[RunningCall | None] = ContextVar("tool_call", default=None)
"""The call to the running tool, for modules that start other agents."""
AGENT_RUN: ContextVar[AgentRun | None] = ContextVar("agent_run", default=None)
"""The run of the agent whose tool is running."""


class BoundCall:
    """Binds RUNNING_CALL to a call for a `with` block.

    It is a class, because a generator would slow every event. If hooks have decided
    without an answer of the user, `unanswered` has their questions.
    """

    __slots__ = ("_token", "call", "ctx", "unanswered")

    def __init__(self, call: ToolCall, ctx: RunningCall) -> None:
        self.call, self.ctx = call, ctx
        self.unanswered: Sequence[ApprovalQuestion] = ()

    def __enter__(self) -> None:
        self._token = RUNNING_CALL.set(self)

    def __exit__(self, *_: object) -> None:
        RUNNING_CALL.reset(self._token)


class AgentRun:
    """One run of an agent, and what the agents that it starts add to it.

    Attributes:
        ctx: The call that the agent runs in.
        name: The name of the agent in its plan; empty for the agent of the plan itself.
        outer: The run whose tool has started this agent.
        started: How many agents the run has started, directly or through others. Only the outermost run counts.
    """

    def __init__(self, ctx: RunningCall, name: str = "") -> None:
        self.ctx = ctx
        self.name = name
        self.outer = AGENT_RUN.get()
        self.started = 0
        self._steps = 0

    @property
    def outermost(self) -> AgentRun:
        return self if self.outer is None else self.outer.outermost

    async def report(self, message: str) -> None:
        """Report progress to the client of the outermost run. The names of the subagents precede the message."""
        text = f"{self.name}: {message}" if self.name else message
        if self.outer is not None:
            await self.outer.report(text)
            return
        self._steps += 1
        await self.ctx.report_progress(self._steps, message=text)


@contextmanager
def bind_value(variable: ContextVar[Any], value: Any) -> Iterator[None]:
    """Set a context variable for the block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


@contextmanager
def pause_while_asking(scope: anyio.CancelScope) -> Iterator[None]:
    """For the block, pause the deadline of a scope whenever the agent's call waits for its user."""
    call = AGENT_CALL.get()
    if call is None:
        yield
        return
    hold = Deadline(scope)
    call.holds.append(hold)
    try:
        yield
    finally:
        call.holds.remove(hold)
