"""Decisions about a call, and the call that a decision belongs to."""

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
"""Decisions of users."""
_SCALARS = frozenset({str, int, bool, type(None)})
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=repr)
MIN_READING_TIME = 0.5
"""Seconds in which no user can read a question: a faster decline may come from the client itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalDecision:
    """One decision. `seconds` is how long it took, None if unknown. `user` is the principal of a user on the page.

    `is_repeated` marks one that another run of the same call has already applied. `reason` explains to the
    model why no user has decided, and what to do.
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
        return (
            self.how in USERS and not self.is_allowed and self.seconds is not None and self.seconds < MIN_READING_TIME
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalSubject:
    """What a decision is about: a tool, its arguments, the question and the principal.

    `arguments` is the SHA-256 of the arguments' canonical JSON. `bound` is the hash of everything that a remembered
    decision must match, including what else the question shows, such as a result.
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
        """Build the subject of a question. `tool` is the name of a tool, or of what `kind` says."""
        hashed = hash_json(arguments)
        bound = hash_json([kind, tool, hashed, question, principal, hash_json(about)])
        return cls(tool=tool, arguments=hashed, bound=bound, principal=principal, session=session)


def hash_json(value: Any) -> str:
    """Return the SHA-256 of a value's canonical JSON. Values that are not JSON count by their `repr`."""
    encoded = _encode_plain(value)
    if encoded is None:
        encoded = _CANONICAL.encode(_convert_keys(value)).encode()
    return hashlib.sha256(encoded).hexdigest()


def _encode_plain(value: Any) -> bytes | None:
    """Return the canonical JSON of a value for which orjson writes the same, for a third of the cost, else None.

    It does for texts of printable ASCII, 64-bit integers, booleans and null, and for lists and objects of these.
    """
    if not _is_plain(value):
        return None
    try:
        encoded = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # a larger integer, a text that is not Unicode, or too many levels
        return None
    return encoded if encoded.isascii() and b"\x7f" not in encoded else None


def _is_plain(value: Any) -> bool:
    """Whether a value consists of the types of JSON itself except floats, whose texts differ."""
    kind = type(value)
    if kind is dict:
        for key, item in value.items():
            if type(key) is not str or (type(item) not in _SCALARS and not _is_plain(item)):
                return False
        return True
    return all(map(_is_plain, value)) if kind is list or kind is tuple else kind in _SCALARS


def _convert_keys(value: Any) -> Any:
    """Convert the keys of mappings to text, so that they can be sorted."""
    if isinstance(value, Mapping):
        return {str(key): _convert_keys(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_convert_keys(item) for item in value]
    return value
