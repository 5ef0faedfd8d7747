"""Compaction: selects the messages for a request if the whole history does not fit.

1. `group_messages` makes units of messages that stay together, such as a tool call and its result.
2. `select_units` leaves out the oldest units, until the others are well below the budget.
3. `shorten_messages` shortens the longest texts, if the messages still do not fit.

All functions are pure. The history is never changed, and the same history gives the same selection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_bridge._integrations.amplifier.results import encode_json, estimate_json_tokens

Message = Mapping[str, Any]

CHARACTERS_PER_TOKEN = 4
"""How many characters are left out of a text to save one token."""
IMAGE_TOKENS = 1600
"""The tokens of an image. The common models scale down larger images."""
SHORTEST = 200
"""Messages of fewer tokens are not shortened."""
NOTICE = 20
"""The tokens of the notice in place of the middle of a text."""
_KEPT_ROLES = frozenset({"system", "developer"})


@dataclass(frozen=True, slots=True)
class Unit:
    """Messages that a request contains together or not at all: tool calls with their results, or a single message.

    Attributes:
        indexes: The indexes of the messages in the history, in order.
        size: The tokens of the messages.
        is_orphan: Whether the unit is a result without its call. No provider accepts such a result.
    """

    indexes: tuple[int, ...]
    size: int
    is_orphan: bool = False


def estimate_tokens(message: Message) -> int:
    """Return about how many tokens a message takes in a request."""
    images = 0
    content = message.get("content")
    if isinstance(content, list):
        texts = [block for block in content if not (isinstance(block, Mapping) and block.get("type") == "image")]
        images = len(content) - len(texts)
        message = {**message, "content": texts}
    if isinstance(message.get("tool_calls"), list):
        message = {**message, "tool_calls": [_drop_repetition(call) for call in message["tool_calls"]]}
    # The estimate is rounded up, so that no message is free.
    return estimate_json_tokens(message) + 1 + images * IMAGE_TOKENS


def _drop_repetition(call: Any) -> Any:
    """Return a stored call without `function` if it has both forms, because `function` repeats the arguments."""
    if not isinstance(call, Mapping) or "function" not in call or "arguments" not in call:
        return call
    return {key: value for key, value in call.items() if key != "function"}


def list_call_ids(message: Message) -> list[str]:
    """Return the ids of the tool calls of a message, in either form: `tool_calls`, or content blocks."""
    stored_calls = message.get("tool_calls")
    calls = list(stored_calls) if isinstance(stored_calls, list) else []
    calls += _list_blocks(message, "tool_call")
    ids = [call.get("id") for call in calls if isinstance(call, Mapping)]
    return _keep_texts(ids)


def list_result_ids(message: Message) -> list[str]:
    """Return the ids of the tool calls with results in a message."""
    ids = [block.get("tool_call_id") for block in _list_blocks(message, "tool_result")]
    if message.get("role") == "tool":
        ids.insert(0, message.get("tool_call_id"))
    return _keep_texts(ids)


def _keep_texts(ids: Sequence[Any]) -> list[str]:
    """Return the ids once each, without values of other types."""
    return list(dict.fromkeys(call_id for call_id in ids if isinstance(call_id, str)))


def _list_blocks(message: Message, block_type: str) -> list[Any]:
    content = message.get("content")
    if not isinstance(content, list):
        return []
    return [block for block in content if isinstance(block, Mapping) and block.get("type") == block_type]


def group_messages(messages: Sequence[Message], sizes: Sequence[int]) -> list[Unit]:
    """Return the units of a history, in the order of their first messages."""
    groups: list[list[int]] = []
    orphans: set[int] = set()
    groups_by_call: dict[str, list[int]] = {}
    for index, message in enumerate(messages):
        result_ids = list_result_ids(message)
        group = next((groups_by_call[call_id] for call_id in result_ids if call_id in groups_by_call), None)
        if group is None:
            group = []
            groups.append(group)
            if result_ids:
                orphans.add(index)
        group.append(index)
        # Later results of these calls join the same group.
        for call_id in list_call_ids(message):
            groups_by_call[call_id] = group
    units = []
    for group in groups:
        size = sum(sizes[index] for index in group)
        units.append(Unit(tuple(group), size, is_orphan=group[0] in orphans))
    return units


def select_units(messages: Sequence[Message], units: Sequence[Unit], *, trigger: float, target: float) -> list[Unit]:
    """Return the units for a request, in order, from a history of more than `trigger` tokens.

    The selection has all system messages, the latest message of the user, and at least one more unit. Of the other
    units, the oldest are left out until about `target` tokens remain. The selection then grows with the history until
    it exceeds `trigger` again. Most requests thus begin with the same messages as the request before, and providers
    charge less for a cached beginning.
    """
    roles = {unit: messages[unit.indexes[0]].get("role") for unit in units}
    latest_prompt = next((unit for unit in reversed(units) if roles[unit] == "user"), None)
    fixed_units: set[Unit] = set()
    other_units: list[Unit] = []
    for unit in units:
        if unit is latest_prompt or roles[unit] in _KEPT_ROLES:
            fixed_units.add(unit)
        elif not unit.is_orphan:
            other_units.append(unit)
    fixed_size = sum(unit.size for unit in fixed_units)
    start = total = 0
    # Earlier requests had fewer units. Repeat their decisions, so that this request begins where they did.
    for end, unit in enumerate(other_units):
        total += unit.size
        if total > trigger - fixed_size:
            while total > target - fixed_size and start < end:
                total -= other_units[start].size
                start += 1
    selection = {*fixed_units, *other_units[start:]}
    return [unit for unit in units if unit in selection]


def shorten_messages(messages: Sequence[Message], budget: float) -> list[dict[str, Any]]:
    """Return copies with the longest texts shortened, until all messages fit in `budget` tokens.

    Results of tools are shortened first. System messages and the arguments of tool calls are not shortened.
    """
    copies = [dict(message) for message in messages]
    sizes = [estimate_tokens(message) for message in copies]
    results = []
    others = []
    for index, message in enumerate(copies):
        if message.get("role") == "tool":
            results.append(index)
        elif message.get("role") not in _KEPT_ROLES:
            others.append(index)
    results.sort(key=lambda index: sizes[index], reverse=True)
    others.sort(key=lambda index: sizes[index], reverse=True)
    excess = sum(sizes) - budget
    for index in (*results, *others):
        if excess <= 0:
            break
        message = copies[index]
        removable = min(sizes[index] - SHORTEST, excess + NOTICE)
        if removable > 0:
            message["content"] = _shorten_content(message.get("content"), int(removable) * CHARACTERS_PER_TOKEN)
            excess -= sizes[index] - estimate_tokens(message)
    return copies


def truncate_middle(text: str, max_length: int) -> str:
    """Return a text of at most `max_length` characters, plus a notice in place of its middle."""
    if len(text) <= max_length:
        return text
    tail_length = max_length // 2
    head = text[: max_length - tail_length]
    tail = text[len(text) - tail_length :]
    return f"{head}\n[{len(text) - max_length} characters left out]\n{tail}"


def _shorten_content(content: Any, characters: int) -> Any:
    """Return the content with about `characters` fewer characters. A notice replaces them."""
    if isinstance(content, str):
        return truncate_middle(content, max(0, len(content) - characters))
    if not isinstance(content, list):
        return content
    blocks = list(content)
    for index, block in enumerate(blocks):
        if characters <= 0:
            break
        for key in ("text", "output"):
            if isinstance(block, Mapping) and key in block:
                text = block[key] if isinstance(block[key], str) else encode_json(block[key]).decode()
                shorter_text = truncate_middle(text, max(0, len(text) - characters))
                characters -= len(text) - len(shorter_text)
                blocks[index] = {**block, key: shorter_text}
                break
    return blocks
