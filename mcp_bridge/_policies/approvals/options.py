"""The options of an approval that a user can choose from, and for how long each allows a call."""

from __future__ import annotations

from typing import Any

from mcp_bridge._policies.approvals.decisions import Scope

DEFAULT_OPTIONS = ("Allow", "Deny")
"""The options of a question that declares none, or whose authors have none in common."""
_SCOPES: dict[str, Scope] = {
    "allow": "once",
    "allow once": "once",
    "yes": "once",
    "approve": "once",
    "allow for session": "session",
    "allow for the session": "session",
    "allow for this session": "session",
    "allow for this session (same arguments)": "session",
    "allow always": "always",
    "allow always (same arguments)": "always",
}


def parse_option_scope(option: Any) -> Scope:
    """Return for how long a chosen option allows a call. An unknown option denies."""
    return _SCOPES.get(option.strip().lower(), "deny") if isinstance(option, str) else "deny"


def is_grant(option: Any) -> bool:
    """Whether a chosen option allows a call."""
    return parse_option_scope(option) != "deny"
