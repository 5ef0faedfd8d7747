"""prompt:submit: what a prompt has come to, before the client has it (HOOK_CONTRACT 1.0.0, "Common Events").

It is emitted once the text is there, because that is what hooks are to judge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from mcp_bridge.amplifier.events import PROMPT_SUBMIT
from mcp_bridge.amplifier.governance.call_events import Emitting
from mcp_bridge.amplifier.governance.result_data import content_of
from mcp_bridge.contracts.content import Text
from mcp_bridge.contracts.errors import Denied
from mcp_bridge.contracts.extension import CallNext
from mcp_bridge.contracts.prompt import Message
from mcp_bridge.contracts.tool import ToolResult
from mcp_bridge.wire.messages import ROLES, messages
from mcp_bridge.wire.values import as_text, to_result
from mcp_bridge.wire.versions import STATELESS


class Submitted(Emitting):
    """A prompt that a person has chosen, under the hooks of their session."""

    __slots__ = ()

    async def run(self, call_next: CallNext) -> ToolResult:
        """The prompt's messages, as hooks leave them. Raises Denied, ApprovalDeclined, and what the prompt raises."""
        result = to_result(await call_next(self._call, self._ctx))
        if result.is_error or not self._hooks.hears(PROMPT_SUBMIT):
            return result
        name, said = self._call.name, messages(result.content or (), STATELESS)
        text = "\n\n".join(_texts(said))
        decided = await self._emit(PROMPT_SUBMIT, {**self._about(), "prompt": text, "messages": said})
        if decided.action == "deny":
            raise Denied(f"Prompt '{name}' was denied: {decided.reason or 'a policy refuses it'}")
        await self._approve(decided, PROMPT_SUBMIT, f"Use the prompt '{name}'?", f"Prompt '{name}' was not approved")
        left = _left(decided.data or {}, said, text)
        content = result.content if left is None else left
        return replace(result, content=(*(content or ()), *map(_injected, self._read)))

    def _about(self) -> dict[str, Any]:
        return {"prompt_name": self._call.name, "arguments": dict(self._call.arguments or {})}


def _texts(said: Sequence[Mapping[str, Any]]) -> list[str]:
    """What a person would read of it; images and the like say nothing here."""
    return [one["content"]["text"] for one in said if one["content"].get("type") == "text"]


def _left(data: Mapping[str, Any], said: Sequence[Any], text: str) -> list[Message] | None:
    """What hooks have made of the messages, or of their text alone, which is one message then; None for no change."""
    changed = data.get("messages", said)
    if changed != said and isinstance(changed, Sequence) and not isinstance(changed, str):
        return [_message(one) for one in changed]
    prompt = data.get("prompt", text)
    return None if prompt == text else [Message(Text(as_text(prompt)))]


def _message(given: Any) -> Message:
    if not isinstance(given, Mapping):
        return Message(Text(as_text(given)))
    return Message(content_of(given.get("content", "")), _role(given.get("role")))


def _injected(one: Any) -> Message:
    return Message(Text(one.content), _role(one.role))


def _role(role: Any) -> Literal["user", "assistant"]:
    """A role of prompts, which have no system."""
    return role if role in ROLES else "user"
