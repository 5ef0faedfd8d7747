"""Remembered decisions of users: grants, in a store that several instances can share.

A user who allows a call for a session or always creates a grant, so that the same call does not ask again. The command
`mcp-bridge approvals` lists and revokes grants.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Container
from dataclasses import asdict, dataclass
from typing import Any

from mcp_bridge._contracts.store import ClosableStore, ListableStore, Store
from mcp_bridge._policies.approvals.decisions import ApprovalSubject, Scope, hash_json

logger = logging.getLogger("mcp_bridge.approvals")

DEFAULT_EXPIRY = 30 * 86400.0
"""Seconds that a decision is remembered."""
MAX_SESSION_TIME = 86400.0
"""The maximum number of seconds for which a decision for a session applies. The end of a session is not always known,
so it cannot end the grant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A remembered decision. `arguments` and `session` are hashes; `at` and `until` are in seconds since 1970."""

    id: str
    tool: str
    arguments: str
    scope: Scope
    principal: str
    session: str
    at: float
    until: float


class GrantStore:
    """The grants of one server in a store, each valid for at most `expires` seconds.

    `bridge` is the name of the server. `clock` returns seconds since 1970.
    """

    def __init__(
        self, store: Store, *, bridge: str = "", expires: float = DEFAULT_EXPIRY, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._prefix = f"mcp-bridge/approved/{_hash_name(bridge)}/"
        self._expires = expires
        self._clock = clock

    async def aclose(self) -> None:
        """Close the connections of the store, if it has any."""
        if isinstance(self._store, ClosableStore):
            await self._store.aclose()

    async def find_grant(
        self, subject: ApprovalSubject, scopes: Container[Scope] = ("session", "always")
    ) -> Grant | None:
        """Return the grant that allows a call in its session or always, if its scope is one of `scopes`."""
        if subject.session and "session" in scopes:
            grant = await self._read_grant(_build_id(subject, "session"))
            if grant is not None:
                return grant
        if "always" in scopes:
            return await self._read_grant(_build_id(subject, "always"))
        return None

    async def add_grant(self, subject: ApprovalSubject, scope: Scope) -> None:
        """Remember that calls with this subject may run."""
        ttl = self._expires
        session = ""
        if scope == "session":
            ttl = min(ttl, MAX_SESSION_TIME)
            session = _hash_name(subject.session)
        now = self._clock()
        grant = Grant(
            id=_build_id(subject, scope),
            tool=subject.tool,
            arguments=subject.arguments,
            scope=scope,
            principal=subject.principal,
            session=session,
            at=now,
            until=now + ttl,
        )
        await self._store.set(self._prefix + grant.id, json.dumps(asdict(grant)).encode(), ttl)

    async def list_grants(self) -> list[Grant]:
        """List all grants, the oldest first. Raises TypeError if the store cannot list its keys."""
        if not isinstance(self._store, ListableStore):
            raise TypeError(f"{type(self._store).__name__} has no method `keys`")
        grants: list[Grant] = []
        for key in await self._store.keys(self._prefix):
            grant = await self._read_grant(key.removeprefix(self._prefix))
            if grant is not None:
                grants.append(grant)
        return sorted(grants, key=lambda grant: (grant.at, grant.id))

    async def revoke_grant(self, id: str) -> None:
        await self._store.delete(self._prefix + id)

    async def _read_grant(self, id: str) -> Grant | None:
        """Return a grant that is valid now. The store may keep it longer than that."""
        data = await self._store.get(self._prefix + id)
        if data is None:
            return None
        try:
            fields: dict[str, Any] = json.loads(data)
            grant = Grant(**fields)
            if grant.id == id and grant.scope in {"session", "always"} and grant.until > self._clock():
                return grant
        except (ValueError, TypeError):
            logger.warning("cannot read the remembered decision %s; it is ignored", id[:12])
        return None


def _build_id(subject: ApprovalSubject, scope: Scope) -> str:
    session = subject.session if scope == "session" else ""
    return hash_json([subject.bound, scope, session])[:32]


def _hash_name(name: str) -> str:
    return hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:12]
