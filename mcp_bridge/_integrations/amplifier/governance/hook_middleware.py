"""Amplifier's hooks around the calls of every source: tool:pre, tool:post, tool:error, prompt:submit (HOOK_CONTRACT).

Questions of hooks go to the user through the `ApprovalGate`. A change is detected by value, and the pipeline validates
changed arguments and results again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, cast

from mcp_bridge._contracts.content import Content, InjectedText, Message, Text
from mcp_bridge._contracts.errors import ApprovalDeclined, CallError, Denied, InvalidArguments, InvalidOutput
from mcp_bridge._contracts.log_levels import Level
from mcp_bridge._contracts.policy import CallNext, Layer, Policy, Stage
from mcp_bridge._contracts.running_call import PolicyDecision, RunningCall
from mcp_bridge._contracts.tool import ToolCall, ToolResult
from mcp_bridge._integrations.amplifier import events
from mcp_bridge._integrations.amplifier.hook_decisions import RESULT_KEYS, get_injections
from mcp_bridge._integrations.amplifier.models import ContextInjection, HookResult
from mcp_bridge._integrations.amplifier.results import from_hook_data, to_content, to_hook_data
from mcp_bridge._integrations.amplifier.running_call import BoundCall
from mcp_bridge._policies.approvals.gate import ApprovalGate, ApprovalQuestion
from mcp_bridge._policies.approvals.options import DEFAULT_OPTIONS
from mcp_bridge._protocol.wire.messages import ROLES, render_messages
from mcp_bridge._protocol.wire.outcomes import to_error_result
from mcp_bridge._protocol.wire.protocol_versions import STATELESS
from mcp_bridge._protocol.wire.tools import INPUT
from mcp_bridge._protocol.wire.values import Unreadable, as_text, to_plain, to_result


class SessionHooks(Protocol):
    """The hooks of one session."""

    def has_handlers(self, event: str) -> bool: ...

    async def collect_decision(self, event: str, data: dict[str, Any]) -> HookResult:
        """Return the combined decision of the handlers; its `data` is None if none of them decides anything."""


OpenHooks = Callable[[RunningCall], AbstractAsyncContextManager[SessionHooks]]
OnResult = Callable[[RunningCall, ToolResult], None]

_NOT_ASKED_AGAIN = "a hook changed the arguments after the user approved them"
_ADVICE = "A hook changed the arguments. The operator of this server must fix the hook."


class HookMiddleware(Policy):
    """Runs the hooks of a call's session; `acquire_hooks` opens them for the duration of the call.

    `on_result` receives the result of every tool call.
    """

    stage = Stage.DECIDE
    injects_texts = True

    def __init__(
        self, acquire_hooks: OpenHooks, approvals: ApprovalGate, on_result: OnResult = lambda ctx, result: None
    ) -> None:
        self._acquire_hooks = acquire_hooks
        self._approvals = approvals
        self._on_result = on_result

    def bind(self, entry: Any) -> Layer | None:
        return self.run_hooks

    async def run_hooks(self, call: ToolCall, ctx: RunningCall, call_next: CallNext) -> ToolResult:
        """Run the call under its hooks. A denial is a failed result. Raises what `acquire_hooks` raises."""
        if call.kind == "tool":
            async with self._acquire_hooks(ctx) as hooks:
                result = await _HookedToolCall(hooks, self._approvals, call, ctx).run(call_next)
                self._on_result(ctx, result)
                return result
        if call.kind == "prompt":
            async with self._acquire_hooks(ctx) as hooks:
                return await _HookedPrompt(hooks, self._approvals, call, ctx).run(call_next)
        return await call_next(call, ctx)


@dataclass(slots=True)
class _HookedCall:
    """One call under its hooks: the call as they change it, and the texts that they inject for the model."""

    _hooks: SessionHooks
    _approvals: ApprovalGate
    _call: ToolCall
    _ctx: RunningCall
    _injected: list[ContextInjection] = field(default_factory=list)
    _unanswered: Sequence[ApprovalQuestion] = ()

    def _describe_call(self) -> dict[str, Any]:
        given = self._call.arguments
        wrapped = given if isinstance(given, Mapping) else {INPUT: given}  # as clients send it
        arguments = dict(wrapped) if given is not None else {}
        name = self._call.known_as or self._call.name
        return {"tool_name": name, "tool_input": arguments, "tool_call_id": self._call.id}

    async def _emit(self, event: str, data: dict[str, Any]) -> HookResult:
        """Return the decision of hooks. Their messages to the user go to the client's log."""
        bound = BoundCall(self._call, self._ctx)
        with bound:
            decided = await self._hooks.collect_decision(event, data)
        self._unanswered = bound.unanswered
        self._injected += get_injections(decided)
        if decided.user_message:
            await self._log_message(decided)
            if self._hooks.has_handlers(events.USER_NOTIFICATION):
                source, level = decided.user_message_source, decided.user_message_level
                notification = {"message": decided.user_message, "level": level, "source": source}
                data = {**self._describe_call(), **notification}
                reaction = await self._hooks.collect_decision(events.USER_NOTIFICATION, data)
                await self._log_message(reaction)  # without another notification, which could go on forever
        return decided

    async def _log_message(self, decided: HookResult) -> None:
        if decided.user_message:
            level = cast("Level", decided.user_message_level)
            await self._ctx.log(level, decided.user_message, decided.user_message_source)

    async def _approve(self, decided: HookResult, event: str, prompt: str, declined: str) -> None:
        """Ask the user where hooks demand it, and emit the approval events. Raises ApprovalDeclined."""
        for question in self._unanswered:  # of hooks that allow the call if no user answers in time
            late = await self._approvals.find_late_decision(question, self._ctx)
            if late is not None and not late.is_allowed:
                raise ApprovalDeclined(f"{declined}.")
        if decided.action != "ask_user":
            return
        asked = decided if decided.approval_prompt else decided.model_copy(update={"approval_prompt": prompt})
        options = list(asked.approval_options or DEFAULT_OPTIONS)
        data = {**self._describe_call(), "event": event, "prompt": asked.approval_prompt, "options": options}
        await self._notify(events.APPROVAL_REQUIRED, data)
        decision = await self._approvals.resolve_question(_build_question(self._call, asked), self._ctx)
        await self._notify(events.APPROVAL_GRANTED if decision.is_allowed else events.APPROVAL_DENIED, data)
        self._ctx.approved_call = self._call
        if not decision.is_allowed:
            text = f"{declined}: {decided.reason}" if decided.reason else f"{declined}."
            raise ApprovalDeclined(f"{text.rstrip('.')}. {decision.reason}" if decision.reason else text)

    def _take_nested_injections(self) -> list[InjectedText]:
        """Return what hooks have injected into the results of calls that this call made, once for all middleware."""
        taken, self._ctx.injected = list(self._ctx.injected.values()), {}
        return taken

    async def _notify(self, event: str, data: dict[str, Any]) -> None:
        """Emit an event whose handlers cannot stop the call."""
        if self._hooks.has_handlers(event):
            await self._emit(event, data)


class _HookedToolCall(_HookedCall):
    __slots__ = ()

    async def run(self, call_next: CallNext) -> ToolResult:
        """Run the tool. A cancelled call emits no event: its client no longer waits for a result."""
        try:
            if self._hooks.has_handlers(events.TOOL_PRE):
                await self._emit_pre()
            result = await self._run_tool(call_next)
            if self._hooks.has_handlers(events.TOOL_POST):
                result = await self._emit_post(result)
        except CallError as error:
            result = to_error_result(error)
        if result.is_error and self._hooks.has_handlers(events.TOOL_ERROR):
            error_data = {"message": result.error_text, "type": result.code or "tool_error"}
            result_data = dict.fromkeys(RESULT_KEYS, to_hook_data(result))
            await self._emit(events.TOOL_ERROR, {**self._describe_call(), "error": error_data, **result_data})
        injected = [_to_injected_text(one) for one in self._injected]
        if self._ctx.injected:
            injected = self._take_nested_injections() + injected
        if not injected:
            return result
        self._ctx.pass_injections(injected)
        return _append_texts(result, injected)

    async def _emit_pre(self) -> None:
        """Let hooks change or stop the call. Raises Denied, ApprovalDeclined, InvalidArguments."""
        name, data = self._call.name, self._describe_call()
        decided = await self._emit(events.TOOL_PRE, data)
        if decided.action == "deny":
            self._ctx.record_decision(PolicyDecision("hooks", "denied", reason=decided.reason or ""))
            raise Denied(f"Tool '{name}' was denied: {decided.reason or 'a policy denies this call'}")
        changed = (decided.data or data).get("tool_input")
        if changed is not data["tool_input"]:
            given, arguments = self._call, _check_arguments(changed, name)
            if not isinstance(given.arguments, Mapping | None):
                arguments = arguments.get(INPUT, arguments)
            self._call = replace(given, arguments=arguments)
            if self._ctx.approved_call is given and decided.action != "ask_user" and changed != data["tool_input"]:
                raise Denied(f"Tool '{name}' was denied: {_NOT_ASKED_AGAIN}")
            self._check_call()
        await self._approve(
            decided, events.TOOL_PRE, f"Allow the tool '{name}' to run?", f"Tool '{name}' was not approved"
        )

    def _check_call(self) -> None:
        """Before the user is asked. The advice differs because the model cannot fix what a hook has changed."""
        if self._ctx.check is None:
            return
        try:
            self._ctx.check(self._call)
        except InvalidArguments as error:
            raise InvalidArguments(error.details, tool=self._call.name, advice=_ADVICE) from None

    async def _run_tool(self, call_next: CallNext) -> ToolResult:
        """Hooks receive a result that violates its schema as a failure."""
        try:
            result: Any = await call_next(self._call, self._ctx)
        except InvalidOutput as error:
            return to_error_result(error)
        return result if isinstance(result, ToolResult) else to_result(result)

    async def _emit_post(self, result: ToolResult) -> ToolResult:
        """Return the result as hooks change it. Raises Denied, ApprovalDeclined, InvalidOutput."""
        result = to_result(result)
        name, seen = self._call.name, to_hook_data(result)
        decided = await self._emit(events.TOOL_POST, {**self._describe_call(), **dict.fromkeys(RESULT_KEYS, seen)})
        if decided.action == "deny":
            raise Denied(f"The result of tool '{name}' was denied: {decided.reason or 'a policy denies it'}")
        declined = f"The result of tool '{name}' was not approved"
        await self._approve(decided, events.TOOL_POST, f"Return the result of the tool '{name}'?", declined)
        data = decided.data or {}
        changed = next((data[key] for key in RESULT_KEYS if key in data and data[key] != seen), None)
        if changed is None:
            return result
        changed_by = _name_hooks(decided.modified_by)
        try:
            result = from_hook_data(changed, result, seen)
        except Unreadable as error:
            problem = f"$: a hook returned an unreadable result: {error}"
            raise InvalidOutput([problem], tool=name, output=None, changed_by=changed_by) from error
        if result.success and self._ctx.check_output is not None:
            self._ctx.check_output(result.output, changed_by)
        return result


class _HookedPrompt(_HookedCall):
    """prompt:submit is emitted once the text of the prompt exists, because hooks judge the text."""

    __slots__ = ()

    async def run(self, call_next: CallNext) -> ToolResult:
        """Return the prompt's messages as hooks change them. Raises Denied, ApprovalDeclined, and prompt errors."""
        result = to_result(await call_next(self._call, self._ctx))
        if result.is_error or not self._hooks.has_handlers(events.PROMPT_SUBMIT):
            return result
        name, sent = self._call.name, render_messages(result.content or (), STATELESS)
        text = "\n\n".join(one["content"]["text"] for one in sent if one["content"].get("type") == "text")
        decided = await self._emit(events.PROMPT_SUBMIT, {**self._describe_call(), "prompt": text, "messages": sent})
        if decided.action == "deny":
            raise Denied(f"Prompt '{name}' was denied: {decided.reason or 'a policy denies it'}")
        await self._approve(
            decided, events.PROMPT_SUBMIT, f"Use the prompt '{name}'?", f"Prompt '{name}' was not approved"
        )
        changed = _read_changed_messages(decided.data or {}, sent, text)
        content = result.content if changed is None else changed
        injected = [Message(Text(one.content), _check_role(one.role)) for one in self._injected]
        nested = [Message(text) for text in self._take_nested_injections()]
        return replace(result, content=(*(content or ()), *nested, *injected))

    def _describe_call(self) -> dict[str, Any]:
        return {"prompt_name": self._call.name, "arguments": dict(self._call.arguments or {})}


def _build_question(call: ToolCall, asked: HookResult) -> ApprovalQuestion:
    return ApprovalQuestion(
        tool=call.name,
        arguments=call.arguments,
        prompt=asked.approval_prompt or f"Allow the tool '{call.name}' to run?",
        options=tuple(asked.approval_options) if asked.approval_options else None,
        timeout=asked.approval_timeout,
        default=asked.approval_default,
        about=_get_subject_data(asked, call.kind),
        kind=call.kind,
    )


def _get_subject_data(asked: HookResult, kind: str) -> Any:
    """Return the prompt text or the result that the user approves; None before a tool has run."""
    data = asked.data or {}
    if kind == "prompt":
        return [data.get("prompt"), data.get("messages")]
    return next((data[key] for key in RESULT_KEYS if key in data), None)


def _check_arguments(changed: Any, tool: str) -> dict[str, Any]:
    if not isinstance(changed, Mapping):
        problem = f"$: a hook replaced the object by a value of type {type(changed).__name__}"
        raise InvalidArguments([problem], tool=tool, advice=_ADVICE)
    try:
        arguments: dict[str, Any] = to_plain(changed)
    except Unreadable as error:
        raise InvalidArguments([f"$: {error}"], tool=tool, advice=_ADVICE) from error
    return arguments


def _name_hooks(names: Sequence[str]) -> str:
    quoted = ", ".join(f"'{name}'" for name in dict.fromkeys(names))
    return f"the hooks {quoted}" if len(names) > 1 else f"the hook {quoted}" if names else "a hook"


def _to_injected_text(injection: ContextInjection) -> InjectedText:
    return InjectedText(injection.content, annotations={"audience": ["assistant"]})


def _append_texts(result: ToolResult, injected: Sequence[InjectedText]) -> ToolResult:
    own: Any = result.content
    if own is None:
        silent = (None, "", result.error_text) if result.is_error else (None, "")  # the wire adds the error text itself
        own = () if result.output in silent else (Text(as_text(result.output)),)
    elif isinstance(own, str | bytes | Content):
        own = (own,)
    present = {block.text for block in own if isinstance(block, InjectedText)}  # a call may return a nested result
    return replace(result, content=(*own, *(text for text in injected if text.text not in present)))


def _read_changed_messages(data: Mapping[str, Any], sent: Sequence[Any], text: str) -> list[Message] | None:
    """Hooks change the messages, or the text alone, which replaces them by one message. Returns None for no change."""
    changed = data.get("messages", sent)
    if changed != sent and isinstance(changed, Sequence) and not isinstance(changed, str):
        return [_read_message(one) for one in changed]
    prompt = data.get("prompt", text)
    return None if prompt == text else [Message(Text(as_text(prompt)))]


def _read_message(given: Any) -> Message:
    if not isinstance(given, Mapping):
        return Message(Text(as_text(given)))
    return Message(to_content(given.get("content", "")), _check_role(given.get("role")))


def _check_role(role: Any) -> Literal["user", "assistant"]:
    """MCP prompts have no system role."""
    return role if role in ROLES else "user"
