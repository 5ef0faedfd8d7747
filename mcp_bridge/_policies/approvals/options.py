"""The options from which a user chooses, such as "Allow for this session", and for how long each allows a call."""

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
    """Return for how long an option allows a call. An unknown option denies."""
    if not isinstance(option, str):
        return "deny"
    return _SCOPES.get(option.strip().lower(), "deny")


def is_grant(option: Any) -> bool:
    """Return whether an option allows a call."""
    return parse_option_scope(option) != "deny"
