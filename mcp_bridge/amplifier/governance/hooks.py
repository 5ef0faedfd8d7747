"""Amplifier's hooks around the calls of every source: tool:pre, tool:post, tool:error, prompt:submit (HOOK_CONTRACT).

Whoever asks is asked through `Approvals`. What a hook changes is compared by value; changed arguments and results
are validated again by the pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

from mcp_bridge.amplifier.decisions import RESULT_KEYS
from mcp_bridge.amplifier.events import TOOL_ERROR, TOOL_POST, TOOL_PRE
from mcp_bridge.amplifier.governance.call_events import Approvals, Emitting, Hooked
from mcp_bridge.amplifier.governance.prompt_submission import Submitted
from mcp_bridge.amplifier.governance.result_data import shown, taken
from mcp_bridge.amplifier.models import ContextInjection
from mcp_bridge.contracts.content import Content, Text
from mcp_bridge.contracts.context import CallContext
from mcp_bridge.contracts.errors import CallError, Denied, InvalidArguments, InvalidOutput
from mcp_bridge.contracts.extension import CallNext, Stage
from mcp_bridge.contracts.tool import ToolCall, ToolResult
from mcp_bridge.wire.outcomes import failure
from mcp_bridge.wire.values import Unreadable, as_text, plain, to_result

Lends = Callable[[CallContext], AbstractAsyncContextManager[Hooked]]
Ended = Callable[[CallContext, ToolResult], None]


_AGREED = "a hook has changed the arguments that a person had agreed to, and nobody was asked again"
_ADVICE = "A hook has changed the arguments; whoever runs this server has to mend that."


class Hooks:
    """Middleware that has the hooks of a call's session decide about the call. `hooked` lends them for as long.

    `ended` hears of every call of a tool that has a result.
    """

    stage = Stage.DECIDE

    def __init__(self, hooked: Lends, approvals: Approvals, ended: Ended = lambda ctx, result: None) -> None:
        self._hooked = hooked
        self._approvals = approvals
        self._ended = ended

    async def __call__(self, call: ToolCall, ctx: CallContext, call_next: CallNext) -> ToolResult:
        """A denial, of a hook or of a person, is a failed result as every other is. Raises what `hooked` does."""
        if call.kind == "tool":
            async with self._hooked(ctx) as hooks:
                result = await Governed(hooks, self._approvals, call, ctx).run(call_next)
                self._ended(ctx, result)
                return result
        if call.kind == "prompt":
            async with self._hooked(ctx) as hooks:
                return await Submitted(hooks, self._approvals, call, ctx).run(call_next)
        return await call_next(call, ctx)


class Governed(Emitting):
    """One call of a tool under its hooks."""

    __slots__ = ()

    async def run(self, call_next: CallNext) -> ToolResult:
        """Carry out the call. A cancellation passes, and no hook hears of it: nobody waits for the call any more."""
        try:
            if self._hooks.hears(TOOL_PRE):
                await self._before()
            result = await self._answer(call_next)
            if self._hooks.hears(TOOL_POST):
                result = await self._after(result)
        except CallError as error:
            result = failure(error)
        if result.is_error and self._hooks.hears(TOOL_ERROR):
            await self._failed(result)
        return _with(result, self._read)

    async def _before(self) -> None:
        """Have hooks decide about the call. Raises Denied, ApprovalDeclined, InvalidArguments."""
        name, about = self._call.name, self._about()
        decided = await self._emit(TOOL_PRE, about)
        if decided.action == "deny":
            raise Denied(f"Tool '{name}' was denied: {decided.reason or 'a policy refuses this call'}")
        changed = (decided.data or about).get("tool_input")
        if changed is not about["tool_input"]:
            given, self._call = self._call, replace(self._call, arguments=_arguments(changed, name))
            if self._ctx.agreed is given and decided.action != "ask_user" and changed != about["tool_input"]:
                raise Denied(f"Tool '{name}' was denied: {_AGREED}")
            self._check()
        await self._approve(decided, TOOL_PRE, f"Allow the tool '{name}' to run?", f"Tool '{name}' was not approved")

    def _check(self) -> None:
        """Nobody is asked about a call that cannot be, and no model told to mend what hooks have done."""
        if self._ctx.check is None:
            return
        try:
            self._ctx.check(self._call)
        except InvalidArguments as error:
            raise InvalidArguments(error.details, tool=self._call.name, advice=_ADVICE) from None

    async def _answer(self, call_next: CallNext) -> ToolResult:
        """What the tool returned, also where that does not fit its schema."""
        try:
            result: Any = await call_next(self._call, self._ctx)
        except InvalidOutput as error:
            return failure(error)
        return result if isinstance(result, ToolResult) else to_result(result)

    async def _after(self, result: ToolResult) -> ToolResult:
        """The result, as hooks have changed it. Raises Denied, ApprovalDeclined, InvalidOutput."""
        result = to_result(result)
        name, seen = self._call.name, shown(result)
        decided = await self._emit(TOOL_POST, {**self._about(), **dict.fromkeys(RESULT_KEYS, seen)})
        if decided.action == "deny":
            raise Denied(f"The answer of tool '{name}' is withheld: {decided.reason or 'a policy says so'}")
        what = f"The answer of tool '{name}' is withheld, because it was not approved"
        await self._approve(decided, TOOL_POST, f"Pass on what the tool '{name}' has answered?", what)
        data = decided.data or {}
        changed = next((data[key] for key in RESULT_KEYS if key in data and data[key] != seen), None)
        if changed is None:
            return result
        try:
            return taken(changed, result, seen)
        except Unreadable as error:
            wrong = f"$: a hook has made of it what cannot be told: {error}"
            raise InvalidOutput([wrong], tool=name, output=None) from error

    async def _failed(self, result: ToolResult) -> None:
        error = {"message": result.error_text, "type": result.code or "tool_error"}
        await self._emit(TOOL_ERROR, {**self._about(), "error": error, **dict.fromkeys(RESULT_KEYS, shown(result))})


def _arguments(changed: Any, tool: str) -> dict[str, Any]:
    """Arguments as hooks have changed them. Raises InvalidArguments for what can be none."""
    if not isinstance(changed, Mapping):
        found = f"$: a hook has made {type(changed).__name__} of the object"
        raise InvalidArguments([found], tool=tool, advice=_ADVICE)
    try:
        made: dict[str, Any] = plain(changed)
    except Unreadable as error:
        raise InvalidArguments([f"$: {error}"], tool=tool, advice=_ADVICE) from error
    return made


def _with(result: ToolResult, injected: Sequence[ContextInjection]) -> ToolResult:
    """The result, and after it what hooks want the model to read."""
    if not injected:
        return result
    read = [Text(one.content, annotations={"audience": ["assistant"]}) for one in injected]
    own: Any = result.content
    if own is None:
        silent = (None, "", result.error_text) if result.is_error else (None, "")  # an error is told before the content
        own = () if result.output in silent else (Text(as_text(result.output)),)
    elif isinstance(own, str | bytes | Content):
        own = (own,)
    return replace(result, content=(*own, *read))
