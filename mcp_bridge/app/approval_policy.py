"""The approval policy in the settings: who approves calls, where approvals are stored, and the audit log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mcp_bridge.amplifier.decisions import grants
from mcp_bridge.approvals.audit import Audit
from mcp_bridge.approvals.desk import Desk
from mcp_bridge.approvals.policy import Policy, sockets_of, store_of
from mcp_bridge.approvals.remembered import Remembered
from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.contracts.store import Store
from mcp_bridge.registry.plugins import FILES, make_store
from mcp_bridge.runtime.redaction import Redactor
from mcp_bridge.stores.patient import PatientStore

if TYPE_CHECKING:
    from mcp_bridge.settings import Settings


def policy_of(settings: Settings) -> Policy:
    """Build the policy. Raises ConfigError for a store that is unavailable, and if no option approves a call."""
    approvals = settings.approvals
    if not any(map(grants, approvals.options)):
        problem = "none of these options approves a call"
        hint = "Include one of: Allow once, Allow for this session, Allow always"
        raise settings.located(ConfigError(problem, hint=hint), "approvals", "options")
    redactor = Redactor(settings.secrets)
    desk = Desk(sockets_folder(settings), name=settings.name, wait=approvals.wait or 0.0, redactor=redactor)
    return Policy(
        options=approvals.options,
        remembered=remembered(settings, patient=True),
        desk=desk if approvals.local else None,
        audit=Audit(_resolve(settings, approvals.audit)) if approvals.audit is not None else None,
    )


def remembered(settings: Settings, *, patient: bool = False) -> Remembered | None:
    """Open the store of lasting approvals, or return None if the settings remember none.

    With `patient`, failures of the store are logged, not raised. Raises ConfigError for a store that is unavailable.
    """
    approvals, state = settings.approvals, settings.state
    if not approvals.remember:
        return None
    if approvals.store is None and state.store != "memory":
        store = store_in(settings, "state", state.store, approvals.path or state.path)
    else:
        store = store_in(settings, "approvals", approvals.store or "sqlite", approvals.path)
    return Remembered(PatientStore(store) if patient else store, bridge=settings.name, expires=approvals.expires)


def store_in(settings: Settings, section: str, name: str, path: str | None) -> Store:
    """Open the store that a section of the settings names. Raises ConfigError with the line of the section."""
    file = None
    if name in FILES:
        file = _resolve(settings, path) if path is not None else store_of(settings.path)
    try:
        return make_store(name, file, where=f"{section}.store")
    except ConfigError as error:
        raise settings.located(error, section, "store") from None


def sockets_folder(settings: Settings) -> Path:
    """Return the folder of the sockets on which running bridges with these settings ask for approval."""
    folder = settings.approvals.sockets
    return _resolve(settings, folder) if folder is not None else sockets_of(settings.path)


def _resolve(settings: Settings, path: str) -> Path:
    return settings.directory / Path(path).expanduser()
