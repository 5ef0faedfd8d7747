"""Recognizes names of secrets: what grants access or authorizes a payment (client/elicitation).

The end of a name decides: `api_key`, `newPassword2` and `access-token` are secrets, `token_count` and `password_hint`
are not.
"""

from __future__ import annotations

import re

WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
"""A word of a name in snake, kebab or camel case."""
_SECRETS = frozenset(
    {
        "password", "passwords", "passwd", "pwd", "passphrase", "passcode", "secret", "secrets", "token", "otp",
        "credential", "credentials", "apikey", "cvv", "cvc",
    }
)  # fmt: skip
_PAIRS = frozenset(
    {
        ("api", "key"), ("access", "key"), ("private", "key"), ("secret", "key"), ("signing", "key"),
        ("encryption", "key"), ("access", "tokens"), ("api", "keys"), ("card", "number"), ("credit", "card"),
        ("security", "code"),
    }
)  # fmt: skip
_REPETITIONS = frozenset({"again", "confirm", "confirmation", "repeat", "repeated"})


def is_secret_name(name: str) -> bool:
    """Whether a name is that of a secret, or of its confirmation."""
    words = [word.lower() for word in WORD.findall(name)]
    while words and words[-1] in _REPETITIONS:
        words.pop()
    return bool(words) and (words[-1] in _SECRETS or tuple(words[-2:]) in _PAIRS)
