"""What the handlers of one event have decided, and what that is together (HOOK_CONTRACT 1.0.0, HookResult Actions)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp_bridge.amplifier.models import ContextInjection, HookResult
from mcp_bridge.runtime.third_party import copied

OPTIONS = ("Allow", "Deny")
"""What a person may say where hooks do not tell, or not the same."""
SILENCE = HookResult()
"""What is decided where nobody has said anything; shared, so nobody changes it."""
_LEVELS = ("info", "warning", "error")
RESULT_KEYS = ("result", "tool_result", "tool_response")
"""What tool:post has the result under: the real package's name, the contract's, and that of shell hooks."""


class Decision:
    """What has been decided so far, by those who have `said` something; `data` as they have made it."""

    __slots__ = ("_modified", "data", "denied", "said")

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.denied: HookResult | None = None
        self.said: list[HookResult] = []
        self._modified = False

    def add(self, result: HookResult | None) -> None:
        """Take one handler's decision in."""
        if result is None:
            return
        self.said.append(result)
        if result.action == "deny":
            self.denied = result
        elif result.action == "modify" and result.data is not None:
            self._modify(result.data)

    def result(self) -> HookResult:
        """All of it as one decision."""
        if not self.said:
            return HookResult(data=self.data)
        made: dict[str, Any] = {"data": self.data}
        if messages := [one for one in self.said if one.user_message]:
            made |= _said_to_the_user(messages)
        injected = [text for one in self.said if one.action == "inject_context" for text in injections(one)]
        if injected:
            made |= _read_by_the_model(injected)
        asked = [one for one in self.said if one.action == "ask_user"]
        if self.denied is not None:
            made |= {"action": "deny", "reason": self.denied.reason}
        elif asked:
            made |= {"action": "ask_user", **_asked(asked)}
        elif injected:
            made["action"] = "inject_context"
        elif self._modified:
            made["action"] = "modify"
        made.setdefault("reason", "\n".join(one.reason for one in self.said if one.reason) or None)
        made["suppress_output"] = any(one.suppress_output for one in self.said)
        return HookResult(**made)

    def _modify(self, data: dict[str, Any]) -> None:
        changed = _agreeing({**self.data, **copied(data)}, self.data)
        self._modified = self._modified or not _same(changed, self.data)
        self.data = changed


def injections(result: HookResult) -> list[ContextInjection]:
    """Every text that a result wants the model to read."""
    if result.context_injections:
        return [one.model_copy() for one in result.context_injections]
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


def as_result(answer: Any) -> HookResult | None:
    """A handler's answer as a decision: a HookResult of this or another package, a mapping, None for nothing.

    Raises ValueError for anything else.
    """
    if answer is None:
        return None
    if isinstance(answer, dict):
        return HookResult.model_validate(answer)
    if hasattr(answer, "action") and hasattr(answer, "model_dump"):
        if answer.action == "continue" and getattr(answer, "model_fields_set", None) == {"action"}:
            return None  # most answers of most hooks
        return answer if isinstance(answer, HookResult) else HookResult.model_validate(answer.model_dump())
    raise ValueError(f"a hook answers with a HookResult, found {type(answer).__name__}")


def _agreeing(changed: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """A result that was changed under one of its names is so under all: the next handler may read another."""
    names = [name for name in RESULT_KEYS if name in before]
    if len(names) > 1:
        new = next((name for name in names if not _same(changed[name], before[name])), names[0])
        changed.update(dict.fromkeys(names, changed[new]))
    return changed


def _same(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:  # arrays and the like, which have no one answer
        return False


def _said_to_the_user(results: Sequence[HookResult]) -> dict[str, Any]:
    return {
        "user_message": "\n".join(str(result.user_message) for result in results),
        "user_message_level": max((result.user_message_level for result in results), key=_LEVELS.index),
        "user_message_source": results[0].user_message_source,
    }


def _read_by_the_model(found: Sequence[ContextInjection]) -> dict[str, Any]:
    return {
        "context_injection": "\n\n".join(one.content for one in found),
        "context_injection_role": found[0].role,
        "ephemeral": any(one.ephemeral for one in found),
        "append_to_last_tool_result": any(one.append_to_last_tool_result for one in found),
        "context_injections": list(found),
    }


def _asked(results: Sequence[HookResult]) -> dict[str, Any]:
    """Several questions are one: all are to be read, and the strictest terms hold."""
    prompts = [result.approval_prompt for result in results if result.approval_prompt]
    return {
        "approval_prompt": "\n\n".join(prompts) or None,
        "approval_options": _options(results),
        "approval_timeout": min(result.approval_timeout for result in results),
        "approval_default": "deny" if any(result.approval_default == "deny" for result in results) else "allow",
        "reason": "\n".join(result.reason for result in results if result.reason) or None,
    }


def _options(results: Sequence[HookResult]) -> list[str] | None:
    """What everybody who names options lets a person say; allow or deny where that is no choice. None: nobody does."""
    named = [result.approval_options for result in results if result.approval_options]
    if len(named) < 2:
        return list(named[0]) if named else None
    common = [option for option in named[0] if all(option in others for others in named)]
    return common if len(common) > 1 else list(OPTIONS)
