"""Reads and combines the decisions of hooks (HOOK_CONTRACT 1.0.0, "HookResult Actions").

The handlers of an event run one after another, and each returns a decision. `HookDecision` combines them. A denial has
priority over a question to the user, a question over an injected text, and an injected text over changed data. The
result always has the changed data, all injected texts and all messages. The caller applies it: a coordinator with
`process_hook_result`, and the pipeline in `hook_middleware.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp_bridge._contracts.tool import ToolCall
from mcp_bridge._integrations.amplifier.models import ContextInjection, HookResult
from mcp_bridge._policies.approvals.gate import ApprovalQuestion
from mcp_bridge._policies.approvals.options import DEFAULT_OPTIONS
from mcp_bridge._runtime.third_party import copy_value

# The decision if no hook has decided anything. It is shared, so it must never be changed.
NO_DECISION = HookResult()
# The keys of the result in the data of tool:post: amplifier-core's, the Hook contract's, and that of shell hooks.
RESULT_KEYS = ("result", "tool_result", "tool_response")
_LEVELS = ("info", "warning", "error")


class HookDecision:
    """The combined decision of the handlers so far. `data` is the event's data with their changes."""

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
        # This is the most frequent decision.
        if value.action == "continue" and getattr(value, "model_fields_set", None) == {"action"}:
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
    """Merge several questions into one, with all prompts, the shortest timeout and the strictest default."""
    prompts = [result.approval_prompt for result in results if result.approval_prompt]
    return {
        "approval_prompt": "\n\n".join(prompts) or None,
        "approval_options": _find_common_options(results),
        "approval_timeout": min(result.approval_timeout for result in results),
        "approval_default": "deny" if any(result.approval_default == "deny" for result in results) else "allow",
        "reason": _join_reasons(results),
    }


def _find_common_options(results: Sequence[HookResult]) -> list[str] | None:
    """Return the options that all questions have, or None if no question has any.

    If they share fewer than two, the user would have no choice, so the options are DEFAULT_OPTIONS.
    """
    lists = [result.approval_options for result in results if result.approval_options]
    if not lists:
        return None
    if len(lists) == 1:
        return list(lists[0])
    common_options = list(lists[0])
    for options in lists[1:]:
        common_options = [option for option in common_options if option in options]
    return common_options if len(common_options) > 1 else list(DEFAULT_OPTIONS)


def build_question(call: ToolCall, decision: HookResult, *, prompt: str, about: Any) -> ApprovalQuestion:
    """Return the question of a decision about a call; `prompt` applies if the decision has none."""
    return ApprovalQuestion(
        tool=call.name,
        arguments=call.arguments,
        prompt=decision.approval_prompt or prompt,
        options=tuple(decision.approval_options) if decision.approval_options else None,
        timeout=decision.approval_timeout,
        default=decision.approval_default,
        about=about,
        kind=call.kind,
    )
