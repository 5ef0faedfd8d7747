"""The keys of conversations with agents."""

from __future__ import annotations

import hashlib

AGENT_KEYS = "agent/"
"""The prefix of the keys of sessions that belong to conversations with an agent."""


def get_session_id(key: str) -> str:
    """Return the id of the session of a conversation.

    Each process derives the same one, so modules that store data by it find the data again. It does not reveal the key,
    and is safe in the name of a file.
    """
    return hashlib.sha256(key.encode()).hexdigest()[:32]
