"""Decisions about a call, and what they are bound to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Scope = Literal["once", "session", "always", "deny"]
"""What was decided: the call may run this once, whenever this session makes it, whenever it is made, or not at all."""
How = Literal["elicitation", "terminal", "remembered", "default", "timeout"]
"""Who decided: the person at the client, one at a terminal, either of them before, or nobody."""
HURRIED = 0.5
"""Seconds in which nobody has read a question: a decline within them may be the client's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One decision. `seconds` is how long it took; None where that cannot be known.

    `again` is for one that another run of the same call has already acted upon.
    """

    scope: Scope
    how: How
    seconds: float | None = None
    again: bool = False

    @property
    def allowed(self) -> bool:
        """Whether the call may run."""
        return self.scope != "deny"

    @property
    def hurried(self) -> bool:
        """Whether a person is said to have declined faster than they could read."""
        by_person = self.how in {"elicitation", "terminal"}
        return by_person and not self.allowed and self.seconds is not None and self.seconds < HURRIED


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a decision is about: this tool with these arguments, this question, this principal.

    `arguments` is the SHA-256 of the arguments' canonical JSON; `bound` that of all of it, and of what else
    the question is about, such as a result.
    """

    tool: str
    arguments: str
    bound: str
    principal: str = ""
    session: str = ""

    @classmethod
    def of(
        cls,
        tool: str,
        arguments: Any,
        question: str,
        *,
        kind: str = "tool",
        principal: str = "",
        session: str = "",
        about: Any = None,
    ) -> Subject:
        """The subject of a question about a call, or whatever else `kind` says that `tool` is the name of."""
        hashed = digest(arguments)
        bound = digest([kind, tool, hashed, question, principal, digest(about)])
        return cls(tool=tool, arguments=hashed, bound=bound, principal=principal, session=session)


def digest(value: Any) -> str:
    """The SHA-256 of a value's canonical JSON; what is no JSON counts as Python shows it."""
    text = json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), default=repr)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    """With text for keys, or they could not be sorted."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(item) for item in value]
    return value
