"""The approval policy of the settings: who is asked, what is remembered and where, what is written to the audit."""

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
    """How people decide. Raises ConfigError for a store that cannot be had, and where no option allows anything."""
    given = settings.approvals
    if not any(map(grants, given.options)):
        problem, hint = "none of these allows anything", "One of: Allow once, Allow for this session, Allow always"
        raise settings.located(ConfigError(problem, hint=hint), "approvals", "options")
    redactor = Redactor(settings.secrets)
    desk = Desk(sockets_folder(settings), name=settings.name, wait=given.wait or 0.0, redactor=redactor)
    return Policy(
        options=given.options,
        remembered=remembered(settings, patient=True),
        desk=desk if given.local else None,
        audit=Audit(settings.directory / Path(given.audit).expanduser()) if given.audit is not None else None,
    )


def remembered(settings: Settings, *, patient: bool = False) -> Remembered | None:
    """The decisions that these settings remember; None for none. A `patient` store only logs that it fails.

    Raises ConfigError for a store that cannot be had.
    """
    given, state = settings.approvals, settings.state
    if not given.remember:
        return None
    if given.store is None and state.store != "memory":
        store = store_in(settings, "state", state.store, given.path or state.path)
    else:
        store = store_in(settings, "approvals", given.store or "sqlite", given.path)
    return Remembered(PatientStore(store) if patient else store, bridge=settings.name, expires=given.expires)


def store_in(settings: Settings, section: str, name: str, path: str | None) -> Store:
    """The store that a section of the settings names. Raises ConfigError, with the line of the section."""
    file = None
    if name in FILES:
        file = settings.directory / Path(path).expanduser() if path is not None else store_of(settings.path)
    try:
        return make_store(name, file, where=f"{section}.store")
    except ConfigError as error:
        raise settings.located(error, section, "store") from None


def sockets_folder(settings: Settings) -> Path:
    """Where running bridges of these settings have their sockets."""
    named = settings.approvals.sockets
    return settings.directory / Path(named).expanduser() if named is not None else sockets_of(settings.path)
