"""The call that the hooks which run now ask about."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar

from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall
from mcp_bridge._policies.approvals.gate import ApprovalQuestion

RUNNING_CALL: ContextVar[BoundCall | None] = ContextVar("running_call", default=None)


class BoundCall:
    """Makes a call the one that hooks in the block ask about. A class, because a generator would slow every event.

    `unanswered` are the questions of hooks that decided without an answer of the user.
    """

    __slots__ = ("_token", "call", "ctx", "unanswered")

    def __init__(self, call: ToolCall, ctx: RunningCall) -> None:
        self.call, self.ctx = call, ctx
        self.unanswered: Sequence[ApprovalQuestion] = ()

    def __enter__(self) -> None:
        self._token = RUNNING_CALL.set(self)

    def __exit__(self, *_: object) -> None:
        RUNNING_CALL.reset(self._token)
