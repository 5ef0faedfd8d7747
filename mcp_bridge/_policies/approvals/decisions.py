"""Decisions about calls, and their exact subjects.

A remembered decision applies to a later call only if the hash of its subject is equal, so `hash_json` is canonical.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson

Scope = Literal["once", "session", "always", "deny"]
"""Whether a call may run: once, whenever this session makes it, always, or never."""
How = Literal["elicitation", "terminal", "page", "remembered", "default", "timeout"]
"""Who decided: the user at the client, in a terminal or on the page, an earlier decision, or the default."""
USERS: frozenset[How] = frozenset({"elicitation", "terminal", "page"})
"""The ways in which users decide. The others apply without a user."""
_SCALARS = frozenset({str, int, bool, type(None)})
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=repr)
MIN_READING_TIME = 0.5
"""Seconds in which no user can read a question. If a decline takes less, the client may have declined by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalDecision:
    """One decision.

    Attributes:
        seconds: The time that the decision took; None if unknown.
        is_repeated: Whether another run of the same call has already applied it.
        reason: Explains to the model why no user has decided, and what to do.
        user: The principal of a user on the page.
    """

    scope: Scope
    how: How
    seconds: float | None = None
    is_repeated: bool = False
    reason: str = ""
    user: str = ""

    @property
    def decider(self) -> str:
        """Who decided, in one word, such as `terminal` or `page:ann`."""
        return f"{self.how}:{self.user}" if self.user else self.how

    @property
    def is_allowed(self) -> bool:
        return self.scope != "deny"

    @property
    def is_hurried(self) -> bool:
        """Whether a user declined faster than anyone can read."""
        if self.is_allowed or self.how not in USERS:
            return False
        return self.seconds is not None and self.seconds < MIN_READING_TIME


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalSubject:
    """The subject of a decision: a tool, its arguments, the question and the principal.

    Attributes:
        arguments: The SHA-256 of the arguments' canonical JSON.
        bound: The hash of everything that a remembered decision must match, including a result in the question.
    """

    tool: str
    arguments: str
    bound: str
    principal: str = ""
    session: str = ""

    @classmethod
    def for_call(
        cls,
        tool: str,
        arguments: Any,
        question: str,
        *,
        kind: str = "tool",
        principal: str = "",
        session: str = "",
        about: Any = None,
    ) -> ApprovalSubject:
        """Build the subject of a question. `tool` is the name of a tool or, if `kind` is `prompt`, of a prompt."""
        digest = hash_json(arguments)
        bound = hash_json([kind, tool, digest, question, principal, hash_json(about)])
        return cls(tool=tool, arguments=digest, bound=bound, principal=principal, session=session)


def hash_json(value: Any) -> str:
    """Return the SHA-256 of a value's canonical JSON. Values that are not JSON count by their `repr`."""
    if _is_plain(value):
        # For texts of printable ASCII, 64-bit integers, booleans and null, orjson writes the same JSON for a third of
        # the cost. It raises TypeError for larger integers, for texts that are not Unicode, and for too many levels.
        try:
            data = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        except TypeError:
            pass
        else:
            # `json` escapes the character DEL, and orjson does not.
            if data.isascii() and b"\x7f" not in data:
                return hashlib.sha256(data).hexdigest()
    return hashlib.sha256(_CANONICAL.encode(_convert_keys(value)).encode()).hexdigest()


def _is_plain(value: Any) -> bool:
    """Return whether a value consists of the types of JSON except floats, which the two libraries write differently."""
    value_type = type(value)
    if value_type is dict:
        for key, item in value.items():
            if type(key) is not str or (type(item) not in _SCALARS and not _is_plain(item)):
                return False
        return True
    if value_type is list or value_type is tuple:
        return all(map(_is_plain, value))
    return value_type in _SCALARS


def _convert_keys(value: Any) -> Any:
    """Convert the keys of mappings to text, so that they can be sorted."""
    if isinstance(value, Mapping):
        return {str(key): _convert_keys(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_convert_keys(item) for item in value]
    return value
