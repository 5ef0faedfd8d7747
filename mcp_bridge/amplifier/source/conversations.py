"""The limit of conversations with agents, of which each client has only a share."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable

from mcp_bridge.amplifier.source.client_session import ClientSession
from mcp_bridge.contracts.context import CallContext
from mcp_bridge.contracts.errors import Overloaded

AGENT_KEYS = "agent/"
"""The prefix of the keys of sessions that belong to conversations with an agent."""


def get_owner(ctx: CallContext) -> str | None:
    """Return whose share a conversation counts against, or None if there is only one client."""
    return f"principal/{ctx.principal}" if ctx.principal else ctx.client


def get_session_id(key: str) -> str:
    """Return the id of the session of a conversation.

    Each process derives the same one, so modules that store data by it find the data again. It does not reveal the key,
    and is safe in the name of a file.
    """
    return hashlib.sha256(key.encode()).hexdigest()[:32]


def choose_conversation_to_end(
    conversations: Iterable[tuple[str, ClientSession]], limit: int, owner: str | None
) -> str | None:
    """Return the key of the conversation to end for a new one of this owner, or None if there is room.

    One of several clients has at most three quarters of the places. Beyond its share it loses the one of its own that
    has been idle the longest; if all places are taken, the client with the most conversations does. Raises Overloaded
    if all of these are in use.
    """
    found = list(conversations)
    counts = Counter(one.owner for _, one in found)
    has_share = owner is None or counts[owner] < -(-limit * 3 // 4)
    if has_share and len(found) < limit:
        return None
    counts[owner] += 1
    idle = [
        (-counts[one.owner], one.last_used, key)
        for key, one in found
        if not one.calls and (one.owner == owner or (has_share and counts[one.owner] >= counts[owner]))
    ]
    if not idle:
        raise Overloaded("There are too many conversations, and all are in use. Retry later.")
    return min(idle)[2]
