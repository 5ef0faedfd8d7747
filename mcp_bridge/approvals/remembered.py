"""Remembered decisions: grants in a store, so that another instance has them too, and anybody can revoke them."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Container
from dataclasses import asdict, dataclass
from typing import Any

from mcp_bridge.approvals.decisions import Scope, Subject, digest
from mcp_bridge.contracts.store import Listing, Store

logger = logging.getLogger("mcp_bridge.approvals")

EXPIRES = 30 * 86400.0
"""Seconds that a decision is remembered."""
SESSION = 86400.0
"""Seconds at most that one for a session is: nobody can tell of every session when it is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A remembered decision. `arguments` and `session` are hashes; `at` and `until` are seconds since 1970."""

    id: str
    tool: str
    arguments: str
    scope: Scope
    principal: str
    session: str
    at: float
    until: float


class Remembered:
    """The grants of one `bridge` in a store, each for `expires` seconds at most. `clock` gives seconds since 1970."""

    def __init__(
        self, store: Store, *, bridge: str = "", expires: float = EXPIRES, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._prefix = f"mcp-bridge/approved/{_short(bridge)}/"
        self._expires = expires
        self._clock = clock

    async def find(self, subject: Subject, scopes: Container[Scope] = ("session", "always")) -> Grant | None:
        """The grant that a call has, for its session or for always, of those `scopes` that count."""
        known: list[Scope] = ["session", "always"] if subject.session else ["always"]
        for scope in known:
            if scope in scopes and (grant := await self._read(_id(subject, scope))) is not None:
                return grant
        return None

    async def keep(self, subject: Subject, scope: Scope) -> None:
        """Remember that calls like this may run."""
        ttl = self._expires if scope == "always" else min(self._expires, SESSION)
        now = self._clock()
        grant = Grant(
            id=_id(subject, scope),
            tool=subject.tool,
            arguments=subject.arguments,
            scope=scope,
            principal=subject.principal,
            session=_short(subject.session) if scope == "session" else "",
            at=now,
            until=now + ttl,
        )
        await self._store.set(self._prefix + grant.id, json.dumps(asdict(grant)).encode(), ttl)

    async def list(self) -> list[Grant]:
        """All grants, the oldest first. Raises TypeError where the store cannot say what is in it."""
        if not isinstance(self._store, Listing):
            raise TypeError(f"{type(self._store).__name__} has no method `keys`")
        keys = await self._store.keys(self._prefix)
        found = [await self._read(key.removeprefix(self._prefix)) for key in keys]
        return sorted((grant for grant in found if grant is not None), key=lambda grant: (grant.at, grant.id))

    async def revoke(self, id: str) -> None:
        """Forget a grant; it need not be there."""
        await self._store.delete(self._prefix + id)

    async def _read(self, id: str) -> Grant | None:
        """A grant whose time is not over, whatever the store thinks of it."""
        raw = await self._store.get(self._prefix + id)
        if raw is None:
            return None
        try:
            held: dict[str, Any] = json.loads(raw)
            grant = Grant(**held)
            good = grant.id == id and grant.scope in {"session", "always"} and grant.until > self._clock()
        except (ValueError, TypeError):
            logger.warning("what is remembered as decision %s cannot be read, and counts for nothing", id[:12])
            return None
        return grant if good else None


def _id(subject: Subject, scope: Scope) -> str:
    return digest([subject.bound, scope, subject.session if scope == "session" else ""])[:32]


def _short(name: str) -> str:
    return hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:12]
