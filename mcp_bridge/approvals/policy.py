"""Policy: who is asked about a call, in which order, and what becomes of what they say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mcp_bridge.approvals.audit import Audit
from mcp_bridge.approvals.desk import Desk
from mcp_bridge.approvals.remembered import Remembered


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What is remembered comes first, then the person at the client, then who is at the desk, then the default.

    `options` are what a person can choose where nobody says. What is None is not there.
    """

    options: Sequence[str] = ("Allow", "Deny")
    remembered: Remembered | None = None
    desk: Desk | None = None
    audit: Audit | None = None
