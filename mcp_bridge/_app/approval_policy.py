"""The approval policy in the settings: who approves calls, where approvals are stored, and the audit log."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_bridge._app.stores import open_store
from mcp_bridge._policies.approvals.audit import AuditLog
from mcp_bridge._policies.approvals.desk import QuestionDesk
from mcp_bridge._policies.approvals.grants import GrantStore
from mcp_bridge._policies.approvals.policy import ApprovalPolicy, get_socket_folder
from mcp_bridge._runtime.redaction import Redactor
from mcp_bridge._storage.stores.fault_tolerant import FaultTolerantStore

if TYPE_CHECKING:
    from mcp_bridge._settings import Settings

OPTIONS = ("Allow once", "Allow for this session (same arguments)", "Allow always (same arguments)", "Deny")
"""What the user can choose from, unless a hook defines its own options."""


def build_approval_policy(settings: Settings, substitutions: Iterable[Callable[[str], str]] = ()) -> ApprovalPolicy:
    """Build the policy. `substitutions` are applied to what users in terminals and on the page see.

    Raises ConfigError for a store that is unavailable.
    """
    approvals = settings.approvals
    redactor = Redactor(settings.secrets)
    for substitute in substitutions:
        redactor.add_substitution(substitute)
    desk = QuestionDesk(
        wait=approvals.wait or 0.0, ttl=settings.state.ttl, redactor=redactor, serves_terminals=approvals.local
    )
    return ApprovalPolicy(
        options=OPTIONS,
        grants=open_approval_store(settings, log_failures=True),
        desk=desk,
        audit=AuditLog(_resolve_path(settings, approvals.audit)) if approvals.audit is not None else None,
        file=settings.path.name if settings.path.is_file() else "",
        truncates=approvals.truncate,
    )


def open_approval_store(settings: Settings, *, log_failures: bool = False) -> GrantStore | None:
    """Open the store of lasting approvals, or return None if the settings remember none.

    With `log_failures`, its failures are logged, not raised. Raises ConfigError for a store that is unavailable.
    """
    approvals, state = settings.approvals, settings.state
    if not approvals.remember:
        return None
    if approvals.store is None and state.store != "memory":
        store = open_store(settings, "state", state.store, approvals.path or state.path)
    else:
        store = open_store(settings, "approvals", approvals.store or "sqlite", approvals.path)
    return GrantStore(
        FaultTolerantStore(store) if log_failures else store, bridge=settings.name, expires=approvals.expires
    )


def find_sockets_folder(settings: Settings) -> Path:
    """Return the folder of the sockets on which running bridges with these settings ask for approval."""
    folder = settings.approvals.sockets
    return _resolve_path(settings, folder) if folder is not None else get_socket_folder(settings.path)


def _resolve_path(settings: Settings, path: str) -> Path:
    return settings.directory / Path(path).expanduser()
