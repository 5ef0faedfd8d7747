"""Compaction: selects the messages of a history that a request includes when not all of them fit.

All functions are pure. The history is never changed, and the same history gives the same selection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_bridge._integrations.amplifier.results import encode_json

Message = Mapping[str, Any]

CHARACTERS_PER_TOKEN = 4
"""An estimate for English text and code. Bytes are counted, because other scripts cost more tokens per character."""
IMAGE_TOKENS = 1600
"""What the largest image costs that the common models accept without scaling it down."""
SHORTEST = 200
"""Tokens of a message below which it is not shortened."""
NOTICE = 20
"""Tokens of the notice that replaces a part of a text."""
_KEPT_ROLES = frozenset({"system", "developer"})


@dataclass(frozen=True, slots=True)
class Unit:
    """Messages that stay together: a request for tool calls with the results, or a single message.

    Attributes:
        places: The indexes of the messages in the history, in order.
        size: Their tokens.
        is_orphan: Whether it is a result without its call, which no provider accepts.
    """

    places: tuple[int, ...]
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
    if message.get("tool_calls"):
        message = {**message, "tool_calls": _list_calls(message)}
    return len(encode_json(message)) // CHARACTERS_PER_TOKEN + 1 + images * IMAGE_TOKENS


def _list_calls(message: Message) -> list[Any]:
    """Return the stored calls once each: those that have both forms repeat their arguments as text."""
    calls = message.get("tool_calls")
    return [
        {key: value for key, value in call.items() if key != "function"} if _has_both_forms(call) else call
        for call in (calls if isinstance(calls, list) else [])
    ]


def _has_both_forms(call: Any) -> bool:
    return isinstance(call, Mapping) and "function" in call and "arguments" in call


def list_call_ids(message: Message) -> list[str]:
    """Return the ids of the tool calls that a message requests, in either form: `tool_calls`, or content blocks."""
    calls = message.get("tool_calls")
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    calls_and_blocks = [*(calls if isinstance(calls, list) else []), *(b for b in blocks if _has_type(b, "tool_call"))]
    ids = [call["id"] for call in calls_and_blocks if isinstance(call, Mapping) and isinstance(call.get("id"), str)]
    return list(dict.fromkeys(ids))


def list_result_ids(message: Message) -> list[str]:
    """Return the ids of the tool calls whose results a message contains."""
    ids = [message.get("tool_call_id")] if message.get("role") == "tool" else []
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    ids += [block.get("tool_call_id") for block in blocks if _has_type(block, "tool_result")]
    return [call_id for call_id in dict.fromkeys(ids) if isinstance(call_id, str)]


def group_messages(messages: Sequence[Message], sizes: Sequence[int]) -> list[Unit]:
    """Return the units of a history, in the order of their first messages."""
    groups: list[list[int]] = []
    orphans: set[int] = set()
    by_call: dict[str, list[int]] = {}
    for place, message in enumerate(messages):
        results = list_result_ids(message)
        group = next((by_call[call_id] for call_id in results if call_id in by_call), None)
        if group is None:
            group = []
            groups.append(group)
            if results:
                orphans.add(place)
        group.append(place)
        by_call.update(dict.fromkeys(list_call_ids(message), group))
    return [Unit(tuple(group), sum(sizes[call_id] for call_id in group), group[0] in orphans) for group in groups]


def select_units(messages: Sequence[Message], units: Sequence[Unit], *, trigger: float, target: float) -> list[Unit]:
    """Return the units that a request includes, in order, from a history of more than `trigger` tokens.

    System messages and the latest message of the user stay, and at least one more unit. Of the others, the oldest are
    left out until about `target` tokens remain. The selection then grows with the history until it exceeds `trigger`
    again, so that most requests begin with the same messages as the one before, which providers cache.
    """
    latest = next((unit for unit in reversed(units) if messages[unit.places[0]].get("role") == "user"), None)
    fixed_units = {unit for unit in units if unit is latest or messages[unit.places[0]].get("role") in _KEPT_ROLES}
    other_units = [unit for unit in units if unit not in fixed_units and not unit.is_orphan]
    room = sum(unit.size for unit in fixed_units)
    start = total = 0
    for end, unit in enumerate(other_units):
        total += unit.size
        if total > trigger - room:
            while total > target - room and start < end:
                total -= other_units[start].size
                start += 1
    selection = {*fixed_units, *other_units[start:]}
    return [unit for unit in units if unit in selection]


def shorten_messages(messages: Sequence[Message], budget: float) -> list[dict[str, Any]]:
    """Return copies in which the longest texts are shortened until all messages fit in `budget` tokens.

    Results of tools are shortened first. System messages and the arguments of tool calls are not shortened.
    """
    copies = [dict(message) for message in messages]
    sizes = [estimate_tokens(message) for message in copies]
    candidates = sorted(
        (place for place, message in enumerate(copies) if message.get("role") not in _KEPT_ROLES),
        key=lambda place: (copies[place].get("role") != "tool", -sizes[place]),
    )
    excess = sum(sizes) - budget
    for place in candidates:
        if excess <= 0:
            break
        message = copies[place]
        removable = min(sizes[place] - SHORTEST, excess + NOTICE)
        if removable > 0:
            message["content"] = _shorten_content(message.get("content"), int(removable) * CHARACTERS_PER_TOKEN)
            excess -= sizes[place] - estimate_tokens(message)
    return copies


def truncate_middle(text: str, most: int) -> str:
    """Return a text of at most `most` characters, plus a notice in place of its middle."""
    if len(text) <= most:
        return text
    head, tail = most - most // 2, most // 2
    return f"{text[:head]}\n[{len(text) - most} characters left out]\n{text[len(text) - tail :]}"


def _shorten_content(content: Any, characters: int) -> Any:
    """Return the content with about `characters` less, and a notice instead."""
    if isinstance(content, str):
        return truncate_middle(content, max(0, len(content) - characters))
    if not isinstance(content, list):
        return content
    blocks = list(content)
    for place, block in enumerate(blocks):
        key = next((key for key in ("text", "output") if isinstance(block, Mapping) and key in block), None)
        if key is not None and characters > 0:
            text = block[key] if isinstance(block[key], str) else encode_json(block[key]).decode()
            shorter = truncate_middle(text, max(0, len(text) - characters))
            characters -= len(text) - len(shorter)
            blocks[place] = {**block, key: shorter}
    return blocks


def _has_type(block: Any, *types: str) -> bool:
    return isinstance(block, Mapping) and block.get("type") in types
