"""The kit of tests of approvals: a server with a policy, the choices of users, and the audit log."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mcp_bridge._policies.approvals.audit import AuditLog
from mcp_bridge._policies.approvals.grants import GrantStore
from mcp_bridge._policies.approvals.policy import ApprovalPolicy
from mcp_bridge._storage.stores.memory import MemoryStore

ONCE, SESSION = "Allow once", "Allow for this session (same arguments)"
ALWAYS, DENY = "Allow always (same arguments)", "Deny"
OPTIONS = (ONCE, SESSION, ALWAYS, DENY)
NAMED = "mcp-bridge/session"
"""What a request's `_meta` calls its session by."""


class Counting(MemoryStore):
    """A store that knows what was set in it."""

    def __init__(self) -> None:
        super().__init__()
        self.sets: list[bytes] = []

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        """Keep it, and count."""
        self.sets.append(value)
        await super().set(key, value, ttl)


def house_with(store: Any = None, *, audit: Path | None = None, hooks: bool = True, **policy: Any) -> Any:
    """Create a server with a question about every call. A store has the decisions of users."""
    from tests.kits.hooks.hooks_kit import HookedServer, ask

    server = HookedServer()
    if hooks:
        server.on("tool:pre", ask())
    remembered = GrantStore(store) if store is not None else None
    server.asking.policy = ApprovalPolicy(
        **{"options": OPTIONS, "grants": remembered, "audit": AuditLog(audit) if audit else None, **policy}
    )
    return server


def lines(audit: Path) -> list[dict[str, Any]]:
    """What was written down."""
    return [json.loads(line) for line in audit.read_text().splitlines()] if audit.exists() else []


def offered(asked: Any) -> list[str]:
    """What a person could choose."""
    field = asked.requested_schema["properties"]["value"]
    options: list[str] = field.get("enum", [field.get("const")])
    return options


@contextmanager
def short_folder() -> Iterator[Path]:
    """A folder whose path is short enough for sockets in it."""
    with tempfile.TemporaryDirectory(prefix="ap", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
