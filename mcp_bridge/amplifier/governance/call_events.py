"""What the events of one call have in common: messages for the user, texts for the model, questions to a person."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, cast

from mcp_bridge.amplifier.decisions import OPTIONS, injections
from mcp_bridge.amplifier.events import APPROVAL_DENIED, APPROVAL_GRANTED, APPROVAL_REQUIRED, USER_NOTIFICATION
from mcp_bridge.amplifier.models import ContextInjection, HookResult
from mcp_bridge.contracts.context import CallContext
from mcp_bridge.contracts.errors import ApprovalDeclined
from mcp_bridge.contracts.levels import Level
from mcp_bridge.contracts.tool import ToolCall


class Hooked(Protocol):
    """The hooks of one session."""

    def hears(self, event: str) -> bool:
        """Whether anybody hears an event."""
        ...

    async def decide(self, event: str, data: dict[str, Any]) -> HookResult:
        """What all who hear it decide together; `data` is None where nobody has changed it."""
        ...


class Approvals(Protocol):
    """Who asks a person."""

    async def decide(self, call: ToolCall, ctx: CallContext, asked: HookResult) -> bool:
        """Whether the call may go on."""
        ...

    def during(self, call: ToolCall, ctx: CallContext) -> AbstractContextManager[None]:
        """Hooks run in the block, and may ask about this call."""
        ...


class Emitting:
    """One call under its hooks: the call as they have made it, and what they want the model to read."""

    __slots__ = ("_approvals", "_call", "_ctx", "_hooks", "_read")

    def __init__(self, hooks: Hooked, approvals: Approvals, call: ToolCall, ctx: CallContext) -> None:
        self._hooks = hooks
        self._approvals = approvals
        self._call = call
        self._ctx = ctx
        self._read: list[ContextInjection] = []

    def _about(self) -> dict[str, Any]:
        """What every event of this call says of it."""
        given = self._call.arguments
        arguments = dict(given) if isinstance(given, Mapping) else {}
        return {"tool_name": self._call.name, "tool_input": arguments, "tool_call_id": self._call.id}

    async def _emit(self, event: str, data: dict[str, Any]) -> HookResult:
        """What hooks decide; what they want the user to read goes to the client's log, whatever that is."""
        with self._approvals.during(self._call, self._ctx):
            decided = await self._hooks.decide(event, data)
        self._read += injections(decided)
        if decided.user_message:
            await self._tell(decided)
            if self._hooks.hears(USER_NOTIFICATION):
                said = await self._hooks.decide(USER_NOTIFICATION, self._said(decided))
                await self._tell(said)  # which is not told again: it might never end
        return decided

    async def _tell(self, decided: HookResult) -> None:
        if decided.user_message:
            level = cast("Level", decided.user_message_level)
            await self._ctx.log(level, decided.user_message, decided.user_message_source)

    def _said(self, decided: HookResult) -> dict[str, Any]:
        source, level = decided.user_message_source, decided.user_message_level
        return {**self._about(), "message": decided.user_message, "level": level, "source": source}

    async def _approve(self, decided: HookResult, event: str, prompt: str, declined: str) -> None:
        """Ask a person where hooks want that, and say so. Raises ApprovalDeclined."""
        if decided.action != "ask_user":
            return
        asked = decided if decided.approval_prompt else decided.model_copy(update={"approval_prompt": prompt})
        options = list(asked.approval_options or OPTIONS)
        about = {**self._about(), "event": event, "prompt": asked.approval_prompt, "options": options}
        await self._notify(APPROVAL_REQUIRED, about)
        allowed = await self._approvals.decide(self._call, self._ctx, asked)
        await self._notify(APPROVAL_GRANTED if allowed else APPROVAL_DENIED, about)
        self._ctx.agreed = self._call
        if not allowed:
            raise ApprovalDeclined(f"{declined}: {decided.reason}" if decided.reason else f"{declined}.")

    async def _notify(self, event: str, data: dict[str, Any]) -> None:
        """Have those who hear an event know of it; whether it goes on is not for them to say."""
        if self._hooks.hears(event):
            await self._emit(event, data)
