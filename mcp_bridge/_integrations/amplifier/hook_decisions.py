"""Decisions of hooks: how they are read, combined and applied (HOOK_CONTRACT 1.0.0, HookResult Actions).

The handlers of an event run one after another, and each returns a decision. `HookDecision` combines them. A denial has
priority over a question to the user, a question over an injected text, and that over changed data. The result always
has the changed data, all injected texts and all messages. `apply_decision` then shows the messages, stores the texts,
and asks the user.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import anyio

from mcp_bridge._integrations.amplifier.errors import ApprovalTimeoutError, log_errors
from mcp_bridge._integrations.amplifier.events import APPROVAL_DENIED, APPROVAL_GRANTED, APPROVAL_REQUIRED
from mcp_bridge._integrations.amplifier.models import ContextInjection, HookResult
from mcp_bridge._policies.approvals.decisions import ApprovalDecision
from mcp_bridge._policies.approvals.options import DEFAULT_OPTIONS, is_grant
from mcp_bridge._runtime.third_party import copy_value, is_own_cancellation, resolve_awaitable

logger = logging.getLogger("mcp_bridge.amplifier")

# The decision if no hook has decided anything. It is shared, so it must never be changed.
NO_DECISION = HookResult()
# amplifier-core, the contract and shell hooks have the result of tool:post under different keys.
RESULT_KEYS = ("result", "tool_result", "tool_response")
_LEVELS = ("info", "warning", "error")


class EventEmitter(Protocol):
    """Emits events to hooks."""

    async def emit(self, event: str, data: dict[str, Any]) -> HookResult:
        """Emit an event. Return the combined decision."""


class DecisionTarget(Protocol):
    """The part of a coordinator that decisions are applied to."""

    approval_system: Any
    display_system: Any

    @property
    def hooks(self) -> EventEmitter: ...

    def get(self, mount_point: str, name: str | None = None) -> Any: ...


@runtime_checkable
class EventApprover(Protocol):
    """An approval system that applies the time limit and the default of a hook itself."""

    async def approve_event(self, decision: HookResult, event: str) -> ApprovalDecision:
        """Ask the user about an event, as the hooks' combined decision requires."""


class HookDecision:
    """The combined decision of handlers so far; `data` is the event's data as they have modified it."""

    __slots__ = ("_modified_by", "data", "denial", "results")

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.denial: HookResult | None = None
        self.results: list[HookResult] = []
        self._modified_by: list[str] = []

    def add(self, result: HookResult | None, name: str) -> None:
        """Add the decision of the handler with this name."""
        if result is None:
            return
        self.results.append(result)
        if result.action == "deny":
            self.denial = result
        elif result.action == "modify" and result.data is not None:
            data = {**self.data, **copy_value(result.data)}
            _copy_result_keys(data, self.data)
            if not _is_equal(data, self.data):
                self._modified_by.append(name)
            self.data = data

    def build_result(self) -> HookResult:
        if not self.results:
            return HookResult(data=self.data)
        messages = [result for result in self.results if result.user_message]
        questions = [result for result in self.results if result.action == "ask_user"]
        injections: list[ContextInjection] = []
        for result in self.results:
            if result.action == "inject_context":
                injections += get_injections(result)
        fields: dict[str, Any] = {
            "data": self.data,
            "reason": _join_reasons(self.results),
            "suppress_output": any(result.suppress_output for result in self.results),
        }
        if self._modified_by:
            fields["modified_by"] = self._modified_by
        if messages:
            fields |= _merge_messages(messages)
        if injections:
            fields |= _merge_injections(injections)
        if self.denial is not None:
            fields |= {"action": "deny", "reason": self.denial.reason}
        elif questions:
            fields |= {"action": "ask_user", **_merge_questions(questions)}
        elif injections:
            fields["action"] = "inject_context"
        elif self._modified_by:
            fields["action"] = "modify"
        return HookResult(**fields)


def parse_hook_result(value: Any) -> HookResult | None:
    """Read the return value of a handler: a HookResult of this or another package, a mapping, or None.

    Returns None for a bare `continue`. Raises ValueError for anything else.
    """
    if value is None:
        return None
    if isinstance(value, dict):
        return HookResult.model_validate(value)
    if hasattr(value, "action") and hasattr(value, "model_dump"):
        if value.action == "continue" and getattr(value, "model_fields_set", None) == {"action"}:
            # This is the most frequent decision.
            return None
        return value if isinstance(value, HookResult) else HookResult.model_validate(value.model_dump())
    raise ValueError(f"a hook must return a HookResult, got {type(value).__name__}")


def get_injections(result: HookResult) -> list[ContextInjection]:
    if result.context_injections:
        return [injection.model_copy() for injection in result.context_injections]
    if not result.context_injection:
        return []
    return [
        ContextInjection(
            content=result.context_injection,
            role=result.context_injection_role,
            ephemeral=result.ephemeral,
            append_to_last_tool_result=result.append_to_last_tool_result,
        )
    ]


async def apply_decision(target: DecisionTarget, result: HookResult, event: str, hook_name: str) -> HookResult:
    """Show the message, store the injected texts and ask the user, as a decision demands.

    Returns a `deny` where the user declines, else the decision. A failing step never skips the others.
    """
    if result.user_message:
        with log_errors("cannot show the message of a hook"):
            await _show_message(target, result, hook_name)
    for injection in get_injections(result):
        context = None if injection.ephemeral else target.get("context")
        if context is not None:
            with log_errors("cannot store an injected text in the context"):
                await resolve_awaitable(context.add_message({"role": injection.role, "content": injection.content}))
    if result.action != "ask_user":
        return result
    prompt = result.approval_prompt or "Allow this?"
    options = result.approval_options or list(DEFAULT_OPTIONS)
    await target.hooks.emit(APPROVAL_REQUIRED, {"prompt": prompt, "event": event, "options": options})
    choice, reason = await _ask_user(target.approval_system, result, event, prompt, options)
    data, is_silent = result.data, result.suppress_output
    if is_grant(choice):
        await target.hooks.emit(APPROVAL_GRANTED, {"prompt": prompt, "choice": choice})
        return HookResult(action="continue", data=data, suppress_output=is_silent)
    await target.hooks.emit(APPROVAL_DENIED, {"prompt": prompt, "choice": choice})
    return HookResult(action="deny", data=data, reason=reason, suppress_output=is_silent)


async def _show_message(target: DecisionTarget, result: HookResult, hook_name: str) -> None:
    source = result.user_message_source or hook_name
    show = getattr(target.display_system, "show_message", None)
    if show is None:
        logger.info("%s: %s", source, result.user_message)
    else:
        await resolve_awaitable(show(result.user_message, result.user_message_level, source))


async def _ask_user(system: Any, result: HookResult, event: str, prompt: str, options: list[str]) -> tuple[str, str]:
    """Return the user's choice, and the reason to report if that choice denies.

    The hook's default applies on a timeout; without a working approval system the choice is always `deny`.
    """
    if system is None:
        logger.warning("a hook asks for approval, but there is no approval system: %s", prompt)
        return "deny", "This needs the user's approval, and no approval system is available."
    try:
        if isinstance(system, EventApprover):
            decision = await system.approve_event(result, event)
            allow, deny = DEFAULT_OPTIONS
            choice = allow if decision.is_allowed else deny
            return choice, decision.reason or "The user declined."
        with anyio.fail_after(result.approval_timeout):
            request = system.request_approval(prompt, options, result.approval_timeout, result.approval_default)
            choice = await resolve_awaitable(request)
    except BaseException as error:
        if is_own_cancellation(error):
            raise
        # A module may raise amplifier-core's class, so the names are compared, too.
        if isinstance(error, TimeoutError) or type(error).__name__ == ApprovalTimeoutError.__name__:
            return result.approval_default, "This needs the user's approval, and the request timed out."
        logger.exception("cannot ask the user for approval: %s", prompt)
        return "deny", "This needs the user's approval, and the request failed."
    return str(choice), f"The user chose: {choice}"


def _copy_result_keys(data: dict[str, Any], before: dict[str, Any]) -> None:
    """Copy a changed result to all of its keys, because the next handler may read another one."""
    names = [name for name in RESULT_KEYS if name in before]
    for name in names:
        if not _is_equal(data[name], before[name]):
            data.update(dict.fromkeys(names, data[name]))
            return


def _is_equal(first: Any, second: Any) -> bool:
    try:
        return bool(first == second)
    except Exception:
        # The comparison of arrays, for example, is not a bool.
        return False


def _merge_messages(results: Sequence[HookResult]) -> dict[str, Any]:
    return {
        "user_message": "\n".join(str(result.user_message) for result in results),
        "user_message_level": max((result.user_message_level for result in results), key=_LEVELS.index),
        "user_message_source": results[0].user_message_source,
    }


def _join_reasons(results: Sequence[HookResult]) -> str | None:
    return "\n".join(result.reason for result in results if result.reason) or None


def _merge_injections(injections: Sequence[ContextInjection]) -> dict[str, Any]:
    return {
        "context_injection": "\n\n".join(injection.content for injection in injections),
        "context_injection_role": injections[0].role,
        "ephemeral": any(injection.ephemeral for injection in injections),
        "append_to_last_tool_result": any(injection.append_to_last_tool_result for injection in injections),
        "context_injections": list(injections),
    }


def _merge_questions(results: Sequence[HookResult]) -> dict[str, Any]:
    """Merge several questions into one, with all prompts and the strictest terms."""
    prompts = [result.approval_prompt for result in results if result.approval_prompt]
    return {
        "approval_prompt": "\n\n".join(prompts) or None,
        "approval_options": _find_common_options(results),
        "approval_timeout": min(result.approval_timeout for result in results),
        "approval_default": "deny" if any(result.approval_default == "deny" for result in results) else "allow",
        "reason": _join_reasons(results),
    }


def _find_common_options(results: Sequence[HookResult]) -> list[str] | None:
    """Return the options that all questions share, DEFAULT_OPTIONS if fewer than two, None if no question has any."""
    lists = [result.approval_options for result in results if result.approval_options]
    if not lists:
        return None
    if len(lists) == 1:
        return list(lists[0])
    common = [option for option in lists[0] if all(option in options for options in lists)]
    return common if len(common) > 1 else list(DEFAULT_OPTIONS)
