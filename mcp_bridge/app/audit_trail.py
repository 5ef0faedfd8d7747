"""Finds the audit trail of a settings file, for commands and pages that read it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcp_bridge.settings import Settings


def find_audit_trail(settings: Settings) -> Path | None:
    """Return the file of the first policy `audit`; None if there is none. The file may not exist yet."""
    for policy in settings.policy:
        path = policy.options.get("path")
        if policy.name == "audit" and isinstance(path, str):
            return settings.directory / Path(path).expanduser()
    return None
