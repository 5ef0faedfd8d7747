"""The decision of a policy about a call."""

from __future__ import annotations

from typing import Literal, NamedTuple


class PolicyDecision(NamedTuple):
    """Which policy has allowed or denied a call, or answered it in place of the tool.

    `by` is who decided for the policy, such as a user at a terminal.
    """

    policy: str
    decision: Literal["allowed", "denied", "answered"]
    by: str = ""
    reason: str = ""

    def to_json(self) -> dict[str, str]:
        """Return the members that are not empty."""
        return {name: value for name, value in self._asdict().items() if value}
