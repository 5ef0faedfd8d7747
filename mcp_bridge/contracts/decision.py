"""The decision of a policy about a call."""

from __future__ import annotations

from typing import Literal, NamedTuple


class PolicyDecision(NamedTuple):
    """Which policy has allowed or denied a call. `by` is who decided for it, such as a user at a terminal."""

    policy: str
    decision: Literal["allowed", "denied"]
    by: str = ""
    reason: str = ""

    def to_json(self) -> dict[str, str]:
        """Return the members that are not empty."""
        return {name: value for name, value in self._asdict().items() if value}
