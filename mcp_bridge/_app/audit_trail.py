"""Finds the audit trail of a settings file, for commands and pages that read it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mcp_bridge._settings import Settings


class ConfiguredTrail(NamedTuple):
    """The file of the first policy `audit`, which may not exist yet, and whether the policy removes old records."""

    path: Path
    removes_records: bool


def find_audit_trail(settings: Settings) -> ConfiguredTrail | None:
    """Return the audit trail of the settings; None if there is none."""
    for policy in settings.policy:
        path = policy.options.get("path")
        if policy.name == "audit" and isinstance(path, str):
            removes_records = any(policy.options.get(name) is not None for name in ("keep", "max_size"))
            return ConfiguredTrail(settings.directory / Path(path).expanduser(), removes_records)
    return None
