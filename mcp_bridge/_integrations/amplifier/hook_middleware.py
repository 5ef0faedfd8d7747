"""Runs the hooks of Amplifier modules around the calls of every source (HOOK_CONTRACT).

A tool call passes these steps:

1. `tool:pre`: hooks may deny the call, change its arguments, or ask the user.
2. The tool runs.
3. `tool:post`: hooks may deny the result, change it, or ask the user. This includes the results of failed tools.
4. `tool:error`, if the call was denied or has failed.
5. The injected texts of hooks are appended to the result, for the client's model.

A prompt has one event, `prompt:submit`, after its text exists, because hooks judge the text.

Hooks get copies, so a change is detected by comparing values. The pipeline validates changed arguments and results
again. Arguments are validated before the user is asked, so the user only approves valid calls.
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
from mcp_bridge._integrations.amplifier.hook_decisions import RESULT_KEYS, build_question, get_injections
from mcp_bridge._integrations.amplifier.models import ContextInjection, HookResult
from mcp_bridge._integrations.amplifier.results import from_hook_data, to_content, to_hook_data
from mcp_bridge._integrations.amplifier.running_call import BoundCall
from mcp_bridge._policies.approvals.gate import ApprovalGate, ApprovalQuestion
from mcp_bridge._policies.approvals.options import DEFAULT_OPTIONS
from mcp_bridge._protocol.wire.messages import ROLES, render_messages
from mcp_bridge._protocol.wire.outcomes import to_error_result
from mcp_bridge._protocol.wire.protocol_versions import STATELESS
from mcp_bridge._protocol.wire.tools import INPUT
from mcp_bridge._protocol.wire.values import Unreadable, to_plain, to_plain_text, to_result


class SessionHooks(Protocol):
    """The hooks of one session: its `HookRegistry`, or `DenyingHooks`."""

    def has_handlers(self, event: str) -> bool: ...

    async def collect_decision(self, event: str, data: dict[str, Any]) -> HookResult:
        """Return the combined decision of the handlers; its `data` is None if none of them decides anything."""


OpenHooks = Callable[[RunningCall], AbstractAsyncContextManager[SessionHooks]]
OnResult = Callable[[RunningCall, ToolResult], None]

_CHANGED_AFTER_APPROVAL = "a hook changed the arguments after the user approved them"
_ADVICE = "A hook changed the arguments. The operator of this server must fix the hook."


class HookMiddleware(Policy):
    """The policy for the hooks of a call's session.

    `acquire_hooks` returns a context manager for the hooks, because the session must not end during the call.
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
        """Run the call under its hooks. A denial is a failed result. Raises the errors of `acquire_hooks`."""
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
    """One call under its hooks: the call with the changes of hooks, and their injected texts for the model.

    `_unanswered` are the questions of the last event without an answer: they timed out, or the module stopped waiting.
    The hooks have decided without the user, who may still answer.
    """

    _hooks: SessionHooks
    _approvals: ApprovalGate
    _call: ToolCall
    _ctx: RunningCall
    _injections: list[ContextInjection] = field(default_factory=list)
    _unanswered: Sequence[ApprovalQuestion] = ()

    def _describe_call(self) -> dict[str, Any]:
        arguments = self._call.arguments
        if arguments is None:
            arguments = {}
        elif isinstance(arguments, Mapping):
            arguments = dict(arguments)
        else:
            # The data of hooks is an object. Clients send an argument that is not an object under this key.
            arguments = {INPUT: arguments}
        name = self._call.known_as or self._call.name
        return {"tool_name": name, "tool_input": arguments, "tool_call_id": self._call.id}

    async def _emit(self, event: str, data: dict[str, Any]) -> HookResult:
        """Emit an event and return the decision of the hooks. Their messages to the user go to the client's log."""
        bound = BoundCall(self._call, self._ctx)
        with bound:
            decision = await self._hooks.collect_decision(event, data)
        self._unanswered = bound.unanswered
        self._injections += get_injections(decision)
        if decision.user_message:
            await self._log_message(decision)
            if self._hooks.has_handlers(events.USER_NOTIFICATION):
                notification = {
                    **self._describe_call(),
                    "message": decision.user_message,
                    "level": decision.user_message_level,
                    "source": decision.user_message_source,
                }
                # The reaction to a notification causes no other notification, because this could go on forever.
                await self._log_message(await self._hooks.collect_decision(events.USER_NOTIFICATION, notification))
        return decision

    async def _log_message(self, decision: HookResult) -> None:
        if decision.user_message:
            level = cast("Level", decision.user_message_level)
            await self._ctx.log(level, decision.user_message, decision.user_message_source)

    async def _approve(self, decision: HookResult, event: str, prompt: str, problem: str) -> None:
        """Ask the user if hooks demand it, and emit the approval events. Raises ApprovalDeclined with the problem."""
        # Some hooks allow the call if no user answers before the timeout. A later denial of the user still counts.
        for question in self._unanswered:
            late_decision = await self._approvals.find_late_decision(question, self._ctx)
            if late_decision is not None and not late_decision.is_allowed:
                raise ApprovalDeclined(f"{problem}.")
        if decision.action != "ask_user":
            return
        about = _find_subject(self._call, decision.data or {})
        question = build_question(self._call, decision, prompt=prompt, about=about)
        options = list(decision.approval_options or DEFAULT_OPTIONS)
        data = {**self._describe_call(), "event": event, "prompt": question.prompt, "options": options}
        await self._notify(events.APPROVAL_REQUIRED, data)
        approval = await self._approvals.resolve_question(question, self._ctx)
        await self._notify(events.APPROVAL_GRANTED if approval.is_allowed else events.APPROVAL_DENIED, data)
        # The approval is for these arguments. Other hooks that change them later must ask again.
        self._ctx.approved_call = self._call
        if not approval.is_allowed:
            text = f"{problem}: {decision.reason}" if decision.reason else f"{problem}."
            if approval.reason:
                text = f"{text.rstrip('.')}. {approval.reason}"
            raise ApprovalDeclined(text)

    def _take_nested_injections(self) -> list[InjectedText]:
        """Return the injected texts of nested calls, and remove them, so that no other middleware adds them again."""
        injections = list(self._ctx.injected.values())
        self._ctx.injected = {}
        return injections

    async def _notify(self, event: str, data: dict[str, Any]) -> None:
        """Emit an event without effect on the call."""
        if self._hooks.has_handlers(event):
            await self._emit(event, data)


class _HookedToolCall(_HookedCall):
    __slots__ = ()

    async def run(self, call_next: CallNext) -> ToolResult:
        """Run the tool. A cancelled call emits no further event, because its client no longer waits for a result."""
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
        texts: list[InjectedText] = []
        if self._ctx.injected:
            texts = self._take_nested_injections()
        for injection in self._injections:
            texts.append(InjectedText(injection.content, annotations={"audience": ["assistant"]}))
        if not texts:
            return result
        self._ctx.pass_injections(texts)
        return _append_texts(result, texts)

    async def _emit_pre(self) -> None:
        """Let hooks change or stop the call. Raises Denied, ApprovalDeclined, InvalidArguments."""
        name = self._call.name
        data = self._describe_call()
        decision = await self._emit(events.TOOL_PRE, data)
        if decision.action == "deny":
            self._ctx.record_decision(PolicyDecision("hooks", "denied", reason=decision.reason or ""))
            raise Denied(f"Tool '{name}' was denied: {decision.reason or 'a policy denies this call'}")
        new_input = (decision.data or data).get("tool_input")
        # Most calls keep their arguments. Without a hook that returns data, this is the same object.
        if new_input is not data["tool_input"]:
            before = self._call
            arguments = _check_arguments(new_input, name)
            if not isinstance(before.arguments, Mapping | None):
                # `_describe_call` has put the argument under this key.
                arguments = arguments.get(INPUT, arguments)
            self._call = replace(before, arguments=arguments)
            # A policy may have asked the user about the old arguments. Then the new ones need a question of their own.
            is_approved = self._ctx.approved_call is before
            if is_approved and decision.action != "ask_user" and new_input != data["tool_input"]:
                raise Denied(f"Tool '{name}' was denied: {_CHANGED_AFTER_APPROVAL}")
            self._check_call()
        prompt, problem = f"Allow the tool '{name}' to run?", f"Tool '{name}' was not approved"
        await self._approve(decision, events.TOOL_PRE, prompt, problem)

    def _check_call(self) -> None:
        """Validate the call before the user is asked. An error blames the hook, not the model."""
        if self._ctx.check is None:
            return
        try:
            self._ctx.check(self._call)
        except InvalidArguments as error:
            raise InvalidArguments(error.details, tool=self._call.name, advice=_ADVICE) from None

    async def _run_tool(self, call_next: CallNext) -> ToolResult:
        """Run the tool. A violation of the output schema becomes a failed result, and hooks receive it."""
        try:
            result: Any = await call_next(self._call, self._ctx)
        except InvalidOutput as error:
            return to_error_result(error)
        return result if isinstance(result, ToolResult) else to_result(result)

    async def _emit_post(self, result: ToolResult) -> ToolResult:
        """Return the result as hooks change it. Raises Denied, ApprovalDeclined, InvalidOutput."""
        result = to_result(result)
        name, before = self._call.name, to_hook_data(result)
        decision = await self._emit(events.TOOL_POST, {**self._describe_call(), **dict.fromkeys(RESULT_KEYS, before)})
        if decision.action == "deny":
            raise Denied(f"The result of tool '{name}' was denied: {decision.reason or 'a policy denies it'}")
        prompt, problem = f"Return the result of the tool '{name}'?", f"The result of tool '{name}' was not approved"
        await self._approve(decision, events.TOOL_POST, prompt, problem)
        after = _find_changed_result(decision.data or {}, before)
        if after is None:
            return result
        changed_by = _name_hooks(decision.modified_by)
        try:
            result = from_hook_data(after, result, before)
        except Unreadable as error:
            problem = f"$: a hook returned an unreadable result: {error}"
            raise InvalidOutput([problem], tool=name, output=None, changed_by=changed_by) from error
        if result.success and self._ctx.check_output is not None:
            self._ctx.check_output(result.output, changed_by)
        return result


class _HookedPrompt(_HookedCall):
    __slots__ = ()

    async def run(self, call_next: CallNext) -> ToolResult:
        """Return the prompt's messages as hooks change them. Raises Denied, ApprovalDeclined, and prompt errors."""
        result = to_result(await call_next(self._call, self._ctx))
        if result.is_error or not self._hooks.has_handlers(events.PROMPT_SUBMIT):
            return result
        name, messages = self._call.name, render_messages(result.content or (), STATELESS)
        texts = [message["content"]["text"] for message in messages if message["content"].get("type") == "text"]
        text = "\n\n".join(texts)
        data = {**self._describe_call(), "prompt": text, "messages": messages}
        decision = await self._emit(events.PROMPT_SUBMIT, data)
        if decision.action == "deny":
            raise Denied(f"Prompt '{name}' was denied: {decision.reason or 'a policy denies it'}")
        prompt, problem = f"Use the prompt '{name}'?", f"Prompt '{name}' was not approved"
        await self._approve(decision, events.PROMPT_SUBMIT, prompt, problem)
        content: list[Any] | None = _read_changed_messages(decision.data or {}, messages, text)
        if content is None:
            content = list(result.content or ())
        content += [Message(injected) for injected in self._take_nested_injections()]
        content += [Message(Text(injection.content), _check_role(injection.role)) for injection in self._injections]
        return replace(result, content=tuple(content))

    def _describe_call(self) -> dict[str, Any]:
        return {"prompt_name": self._call.name, "arguments": dict(self._call.arguments or {})}


def _find_subject(call: ToolCall, data: Mapping[str, Any]) -> Any:
    """Return the subject of a question besides the arguments: the prompt or the result in the data of the event."""
    if call.kind == "prompt":
        return [data.get("prompt"), data.get("messages")]
    for key in RESULT_KEYS:
        if key in data:
            return data[key]
    return None


def _check_arguments(value: Any, tool: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        problem = f"$: a hook replaced the object by a value of type {type(value).__name__}"
        raise InvalidArguments([problem], tool=tool, advice=_ADVICE)
    try:
        arguments: dict[str, Any] = to_plain(value)
    except Unreadable as error:
        raise InvalidArguments([f"$: {error}"], tool=tool, advice=_ADVICE) from error
    return arguments


def _find_changed_result(data: Mapping[str, Any], before: Any) -> Any:
    """Return the first result in the data that differs from the one before, or None."""
    for key in RESULT_KEYS:
        if key in data and data[key] != before:
            return data[key]
    return None


def _name_hooks(names: Sequence[str]) -> str:
    if not names:
        return "a hook"
    quoted_names = ", ".join(f"'{name}'" for name in dict.fromkeys(names))
    return f"the hook {quoted_names}" if len(names) == 1 else f"the hooks {quoted_names}"


def _append_texts(result: ToolResult, texts: Sequence[InjectedText]) -> ToolResult:
    content: Any = result.content
    if content is None:
        # Results without content are rendered from their output, and failures without output from their error.
        is_empty = result.output in (None, "")
        repeats_error = result.is_error and result.output == result.error_text
        content = []
        if not is_empty and not repeats_error:
            content = [Text(to_plain_text(result.output))]
    elif isinstance(content, str | bytes | Content):
        content = [content]
    blocks = list(content)
    # A tool may return the result of a nested call, which already has the texts of that call.
    present_texts = {block.text for block in blocks if isinstance(block, InjectedText)}
    blocks += [text for text in texts if text.text not in present_texts]
    return replace(result, content=tuple(blocks))


def _read_changed_messages(data: Mapping[str, Any], messages: Sequence[Any], text: str) -> list[Any] | None:
    """Return the changed messages, or None for no change.

    Hooks can change the messages, or only the text. A changed text replaces all messages by a single one.
    """
    new_messages = data.get("messages", messages)
    if new_messages != messages and isinstance(new_messages, Sequence) and not isinstance(new_messages, str):
        return [_read_message(message) for message in new_messages]
    prompt = data.get("prompt", text)
    return None if prompt == text else [Message(Text(to_plain_text(prompt)))]


def _read_message(message: Any) -> Message:
    if not isinstance(message, Mapping):
        return Message(Text(to_plain_text(message)))
    return Message(to_content(message.get("content", "")), _check_role(message.get("role")))


def _check_role(role: Any) -> Literal["user", "assistant"]:
    """Return a role of MCP prompts. `system`, the default role of injected texts, becomes `user`."""
    return role if role in ROLES else "user"
