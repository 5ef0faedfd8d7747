"""How the approvals of a server are set up, and where their data is by default."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mcp_bridge._policies.approvals.audit import AuditLog
from mcp_bridge._policies.approvals.desk import QuestionDesk
from mcp_bridge._policies.approvals.grants import GrantStore
from mcp_bridge._runtime.platform import system
from mcp_bridge._runtime.user_folders import get_state_folder, hash_path


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalPolicy:
    """How calls are approved (see `gate.py` for the order).

    Attributes:
        options: The choices of a user if a hook defines none.
        grants: Remembers decisions of users; None to remember none.
        desk: Asks users who are not at the client; None to ask none.
        audit: The audit log of approvals; None for none.
        file: The name of the settings file.
        truncates: Whether users may approve a call although the question cannot show it whole.
    """

    options: Sequence[str] = ("Allow", "Deny")
    grants: GrantStore | None = None
    desk: QuestionDesk | None = None
    audit: AuditLog | None = None
    file: str = ""
    truncates: bool = False

    def describe_alternatives(self) -> str:
        """Describe how a user can be asked if the client cannot ask."""
        client = "a client that supports elicitation"
        command = f"`mcp-bridge approvals {self.file}`"
        if self.file and (self.desk is None or not self.desk.serves_terminals):
            return f"Use {client}, or set `approvals.terminal: true` and run {command}; then retry the call."
        if self.file and self.desk is not None and self.desk.is_open:
            return f"The user can run {command} where the server runs, or use {client}; then retry the call."
        return f"Use {client}, and retry the call."


def get_socket_folder(settings: Path) -> Path:
    """Return the folder with the sockets of all servers that run with a settings file."""
    runtime = system.find_runtime_folder()
    if runtime is not None:
        return runtime / "mcp-bridge" / hash_path(settings)
    return get_state_folder() / "sockets" / hash_path(settings)


def get_store_file(settings: Path) -> Path:
    """Return the file of the default store for a settings file."""
    return get_state_folder() / f"{hash_path(settings)}.sqlite3"
