"""Installation of this server into the MCP clients on its machine, from the page.

The page shows each change before the user confirms it, so it makes two requests. The second one has the digest of what
was shown, so that no other change is made if the client's file has been edited meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._desktop import installation
from mcp_bridge._desktop.client import Client, ServerEntry
from mcp_bridge._desktop.entry_display import redact_entry, render_entry_diff
from mcp_bridge._desktop.installation import InstallationPlan
from mcp_bridge._desktop.journal import open_journal
from mcp_bridge._desktop.locations import detect_machine, is_client_installed, resolve_place_path, resolve_server_keys
from mcp_bridge._desktop.table import CLIENTS


class PlanChanged(Exception):
    """A client's file has changed since it was shown."""


class Installations:
    """Installs the entry of this server into clients. All methods read files, so call them in a thread.

    `build_entry` returns the entry, and the path of the file that the server serves.
    """

    def __init__(self, build_entry: Callable[[], tuple[ServerEntry, str]]) -> None:
        self._build_entry = build_entry

    def list_clients(self) -> list[dict[str, Any]]:
        """List the known clients: whether they are on this machine, and whether this server is in their files."""
        machine = detect_machine()
        return [
            {
                "client": client.name,
                "title": client.title,
                "found": is_client_installed(client, machine),
                "installed": self._is_installed(client),
                "files": [str(resolve_place_path(client.places[0], machine))],
            }
            for client in CLIENTS.values()
        ]

    def show_change(self, name: str) -> dict[str, Any]:
        """Return the change that an installation would make in the file of a client, and its digest.

        Raises LookupError for an unknown client, and ConfigError for a file that cannot be edited.
        """
        plan = self._make_plan(name)
        keys = resolve_server_keys(plan.place, detect_machine())
        before = plan.servers.get(plan.entry.name)
        return {
            "file": str(plan.file.path),
            "action": plan.action,
            "before": redact_entry(plan.client, plan.entry.name, before) if before is not None else None,
            "after": installation.build_redacted_value(plan),
            "diff": render_entry_diff(
                plan.client, plan.place, plan.file.path, keys, plan.entry.name, (plan.file.content, plan.text)
            ),
            "digest": _compute_digest(plan),
            "notes": plan.client.next_steps,
        }

    def apply_change(self, name: str, digest: str) -> dict[str, Any]:
        """Make the change with this digest. Raises PlanChanged, and the errors of `show_change`."""
        plan = self._make_plan(name)
        if _compute_digest(plan) != digest:
            raise PlanChanged
        _, source = self._build_entry()
        result = installation.apply_installation(plan, detect_machine(), open_journal(), settings=source)
        return {
            "file": str(plan.file.path),
            "action": plan.action,
            "backup": result.backup,
            "notes": plan.client.next_steps,
        }

    def _make_plan(self, name: str) -> InstallationPlan:
        if name not in CLIENTS:
            raise LookupError(f"There is no client '{name}'.")
        client = CLIENTS[name]
        entry, _ = self._build_entry()
        return installation.prepare_installation(client, client.places[0], entry, detect_machine(), open_journal())

    def _is_installed(self, client: Client) -> bool:
        try:
            # The entry is in the client's file, either as it should be or different.
            return self._make_plan(client.name).action in ("none", "update")
        except (ConfigError, OSError):
            return False


def _compute_digest(plan: InstallationPlan) -> str:
    """Return a digest of the file before and after the change."""
    return sha256(f"{plan.file.path}\0{plan.file.content}\0{plan.text}".encode(errors="surrogatepass")).hexdigest()
