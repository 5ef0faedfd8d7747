"""Limits how many sessions clients keep open: chooses a session to end for a new one, and ends idle sessions.

Connections of clients to upstreams and sessions of Amplifier modules are such sessions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Protocol, TypeVar
from weakref import ref

import anyio

from mcp_bridge._contracts.errors import Overloaded
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._runtime.limiter import compute_share

SWEEP = 0.25
"""The time between two searches for idle sessions, as a share of the idle timeout."""


class LimitedSession(Protocol):
    """A session of a client.

    Attributes:
        owner: The key of the client whose share the session counts against; None if there is only one client.
        calls: The number of calls in flight.
        last_used: The end of the last call, on the event loop's clock.
    """

    owner: str | None
    calls: int
    last_used: float


Key = TypeVar("Key", bound=Hashable)
Session = TypeVar("Session", bound=LimitedSession)


def get_owner(ctx: RunningCall) -> str | None:
    """Return the owner of the sessions of a call, or None if there is only one client."""
    if ctx.principal:
        return f"principal/{ctx.principal}"
    return ctx.client


def choose_session_to_end(
    sessions: Iterable[tuple[Key, LimitedSession]], limit: int, owner: str | None, label: str
) -> Key | None:
    """Return the key of the session to end for a new one of this owner, or None if there is room.

    Of several clients, each may have three quarters of the `limit` sessions. A client beyond its share loses its
    session with the longest idle time. If all places are taken, the client with the most sessions loses one of them.
    Raises Overloaded if all of these sessions are in use. The error calls the sessions `label`.
    """
    entries = list(sessions)
    counts = Counter(session.owner for _, session in entries)
    has_share_left = owner is None or counts[owner] < compute_share(limit)
    if has_share_left and len(entries) < limit:
        return None
    # The new session counts too.
    counts[owner] += 1
    idle_entries = []
    for key, session in entries:
        can_lose = session.owner == owner or (has_share_left and counts[session.owner] >= counts[owner])
        if can_lose and not session.calls:
            idle_entries.append((key, session))
    if not idle_entries:
        beginning = "There are" if has_share_left else "This client has"
        raise Overloaded(f"{beginning} too many {label}, and all are in use. Retry later.")
    most_sessions = max(counts[session.owner] for _, session in idle_entries)
    candidates = [(key, session) for key, session in idle_entries if counts[session.owner] == most_sessions]
    key, _ = min(candidates, key=lambda entry: entry[1].last_used)
    return key


async def end_idle_sessions(
    sessions: Mapping[Key, LimitedSession], idle_timeout: float, end: Callable[[Key], None]
) -> None:
    """Call `end` with the key of each session after `idle_timeout` seconds without a call. Never returns."""
    while True:
        await anyio.sleep(idle_timeout * SWEEP)
        idle_since = anyio.current_time() - idle_timeout
        for key, session in list(sessions.items()):
            if not session.calls and session.last_used < idle_since:
                end(key)


def end_with_client(ctx: RunningCall, sessions: Mapping[Key, Session], key: Key, end: Callable[[Key], None]) -> None:
    """Call `end` when the client of a call disconnects, unless another session has this key by then."""
    # The reference is weak, because a client may outlive many sessions.
    reference = ref(sessions[key])

    def end_session() -> None:
        session = sessions.get(key)
        if session is not None and session is reference():
            end(key)

    ctx.on_session_end(end_session)
