"""For tests of approvals: a bridge with an approval policy, the options that users choose from, and the audit log."""

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
SESSION_KEY = "mcp-bridge/session"
"""The key in `_meta` with the name of the session."""


class RecordingStore(MemoryStore):
    """A store with a record of all stored values."""

    def __init__(self) -> None:
        super().__init__()
        self.sets: list[bytes] = []

    async def set(self, key: str, value: bytes, ttl: float) -> None:
        """Store the value, and record it."""
        self.sets.append(value)
        await super().set(key, value, ttl)


def build_host(store: Any = None, *, audit: Path | None = None, hooks: bool = True, **policy: Any) -> Any:
    """Build a server with an approval policy and a hook that asks about every call. `store` keeps the decisions."""
    from tests.kits.hooks.hooks_kit import HookedServer, ask

    host = HookedServer()
    if hooks:
        host.on("tool:pre", ask())
    grants = GrantStore(store) if store is not None else None
    host.asking.policy = ApprovalPolicy(
        **{"options": OPTIONS, "grants": grants, "audit": AuditLog(audit) if audit else None, **policy}
    )
    return host


def read_records(audit: Path) -> list[dict[str, Any]]:
    """Read the records of an audit log."""
    return [json.loads(line) for line in audit.read_text().splitlines()] if audit.exists() else []


def list_options(question: Any) -> list[str]:
    """List the options of a question."""
    field = question.requested_schema["properties"]["value"]
    options: list[str] = field.get("enum", [field.get("const")])
    return options


@contextmanager
def make_short_folder() -> Iterator[Path]:
    """Yield a folder with a path short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="ap", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
