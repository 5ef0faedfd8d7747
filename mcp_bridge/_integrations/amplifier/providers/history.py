"""Brings the tool calls and results of a history into the order and form for the APIs of models.

A history may be incomplete: a call was cancelled, hooks injected messages between a call and its result, or another
program wrote it. The APIs reject a call without a result directly after it, and a result without a call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from pydantic import BaseModel

from mcp_bridge._integrations.amplifier.message_models import (
    Block,
    ImageBlock,
    Message,
    TextBlock,
    ToolCall,
    ToolCallBlock,
    ToolResultBlock,
)
from mcp_bridge._runtime.exact_json import dump_json, load_json

INCOMPLETE = "The call did not complete."
"""The text for the model in place of a missing result."""


@dataclass(slots=True)
class _PairedCall:
    """A tool call with its result, if there is one. Both get `id` in the request."""

    call: ToolCallBlock
    id: str
    result: ToolResultBlock | None = None

    def build_reply(self) -> Message:
        result = self.result or ToolResultBlock(tool_call_id=self.id, output=INCOMPLETE)
        content: list[Block] = [result.model_copy(update={"tool_call_id": self.id})]
        return Message(role="tool", tool_call_id=self.id, content=content)


def pair_results(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with one result directly after each tool call, as the APIs require it.

    A result without its call is left out, and a call without its result gets a notice as its result. Messages between a
    call and its result follow after the result. Calls with the same id get distinct ids.
    """
    calls_by_index = _match_results(messages)
    ordered_messages: list[Message] = []
    for index, message in enumerate(messages):
        if message.role in ("tool", "function"):
            continue
        calls = calls_by_index.get(index, [])
        ordered_message = message
        if list_results(message) and isinstance(message.content, list):
            blocks = [block for block in message.content if not isinstance(block, ToolResultBlock)]
            # A message without other blocks may have further calls in `tool_calls`.
            if not blocks and not calls:
                continue
            ordered_message = message.model_copy(update={"content": blocks})
        if any(entry.id != entry.call.id for entry in calls):
            ordered_message = _rename_calls(ordered_message, calls)
        ordered_messages.append(ordered_message)
        ordered_messages += [entry.build_reply() for entry in calls]
    return ordered_messages


def _match_results(messages: Sequence[Message]) -> dict[int, list[_PairedCall]]:
    """Return the calls of messages, by the indexes of the messages.

    A result belongs to the latest earlier message that has a call with its id. If that message has several such calls,
    their results are in the order of the calls.
    """
    calls_by_index: dict[int, list[_PairedCall]] = {}
    waiting_calls: dict[str, list[_PairedCall]] = {}
    ids: set[str] = set()
    for index, message in enumerate(messages):
        for result in list_results(message):
            entries = waiting_calls.get(result.tool_call_id)
            if entries:
                entries.pop(0).result = result
        calls = list_calls(message)
        # Earlier calls with the same ids no longer wait.
        for call in calls:
            waiting_calls[call.id] = []
        for call in calls:
            call_id = call.id
            number = 2
            while call_id in ids:
                call_id = f"{call.id}_{number}"
                number += 1
            entry = _PairedCall(call, call_id)
            ids.add(call_id)
            waiting_calls[call.id].append(entry)
            calls_by_index.setdefault(index, []).append(entry)
    return calls_by_index


def _rename_calls(message: Message, calls: Sequence[_PairedCall]) -> Message:
    """Return a message with its calls as blocks with their new ids. `calls` has the order of `list_calls`.

    This order begins with the calls among the blocks, so the remaining calls are those of `tool_calls`.
    """
    new_calls = [entry.call.model_copy(update={"id": entry.id}) for entry in calls]
    content = [TextBlock(text=message.content)] if isinstance(message.content, str) else message.content
    blocks: list[Block] = []
    for block in content:
        blocks.append(new_calls.pop(0) if isinstance(block, ToolCallBlock) else block)
    return message.model_copy(update={"content": [*blocks, *new_calls], "tool_calls": None})


def list_repairs(messages: Sequence[Message]) -> list[dict[str, str]]:
    """Return the calls without a result, as provider:tool_sequence_repaired reports them."""
    repairs = []
    for calls in _match_results(messages).values():
        for entry in calls:
            if entry.result is None:
                repairs.append({"tool_call_id": entry.call.id, "tool_name": entry.call.name})
    return repairs


def list_calls(message: Message) -> list[ToolCallBlock]:
    """Return the tool calls of a message: its content blocks, and the further ones in `tool_calls`.

    A call in `tool_calls` without an id is left out, because no result can refer to it, and the APIs reject it.
    """
    blocks = message.content if isinstance(message.content, list) else []
    calls = [block for block in blocks if isinstance(block, ToolCallBlock)]
    ids = {call.id for call in calls}
    for stored_call in (message.model_extra or {}).get("tool_calls") or ():
        # Another program may have written anything there.
        if not isinstance(stored_call, Mapping | ToolCall):
            continue
        call_id, function = stored_call.get("id"), stored_call.get("function")
        if not isinstance(call_id, str) or call_id in ids:
            continue
        if not isinstance(function, Mapping):
            function = {}
        arguments = stored_call.get("arguments", function.get("arguments"))
        # Loops write the name as `tool` or `name`, and OpenAI's form has it in `function`.
        name = str(stored_call.get("name") or stored_call.get("tool") or function.get("name") or "")
        calls.append(ToolCallBlock(id=call_id, name=name, input=_read_arguments(arguments)))
    return calls


def _read_arguments(arguments: Any) -> dict[str, Any]:
    if isinstance(arguments, str):
        try:
            arguments = load_json(arguments)
        except ValueError:
            return {}
    return arguments if isinstance(arguments, dict) else {}


def list_results(message: Message) -> list[ToolResultBlock]:
    """Return the tool results of a message: its content blocks, or the content of a message with the role `tool`."""
    blocks = message.content if isinstance(message.content, list) else []
    results = [block for block in blocks if isinstance(block, ToolResultBlock)]
    if not results and message.role in ("tool", "function") and message.tool_call_id is not None:
        result = ToolResultBlock(tool_call_id=message.tool_call_id, output=message.content)
        if (message.model_extra or {}).get("is_error"):
            result = result.model_copy(update={"is_error": True})
        return [result]
    return results


def is_failed(result: ToolResultBlock) -> bool:
    """Return whether the call of a result has failed. In this case, the loop sets `is_error`."""
    return bool((result.model_extra or {}).get("is_error"))


def split_output(output: Any) -> tuple[str, list[ImageBlock]]:
    """Return the text of a tool's output, and its images."""
    if not isinstance(output, list) or not all(isinstance(block, TextBlock | ImageBlock) for block in output):
        return render_text(output), []
    texts = [block for block in output if isinstance(block, TextBlock)]
    return render_text(texts), [block for block in output if isinstance(block, ImageBlock)]


def render_text(content: Any) -> str:
    """Return content as text: blocks of text joined, anything else as JSON."""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(block, TextBlock) for block in content):
        return "\n".join(block.text for block in content)
    return dump_json(content, default=_to_plain, option=orjson.OPT_NON_STR_KEYS).decode()


def _to_plain(value: Any) -> Any:
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else str(value)
