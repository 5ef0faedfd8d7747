"""Recognizes names of secrets. These grant access or authorize a payment.

Forms must not ask for such values (MCP client/elicitation), headers must not contain them, and logs must not show them.
The end of a name decides: `api_key`, `newPassword2` and `access-token` are secrets, `token_count` and `password_hint`
are not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

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
COMPOUND_SECRETS = frozenset(
    {"authorization", "privatekey", "accesskey", "secretkey", "accesstoken", "authtoken", "clientsecret"}
)
"""Names of secrets in one word: headers, and pairs of words without a separator.

They count in the names of headers and in keys of a configuration, but not in forms.
"""
_SECRET_KEYS = COMPOUND_SECRETS | {"bearer", "refreshtoken", "connectionstring"}
"""Names in one word for keys of a configuration. The three added here count only there."""
_SUFFIXES = frozenset({"value", "primary", "secondary", "backup", "old", "new"})
"""Words at the end of a key that do not change its meaning."""
_SCHEMES = frozenset({"basic", "bearer", "token"})
"""The schemes of an Authorization header, which precede a secret."""
_MAX_WORD = 7
"""In a mapping below the name of a secret, such as `credentials`, a text of up to this many letters is an ordinary
word, such as `basic`, and no secret."""
_REPETITIONS = frozenset({"again", "confirm", "confirmation", "repeat", "repeated"})


def is_secret_name(name: str) -> bool:
    """Whether a name is that of a secret, or of its confirmation."""
    words = [word.lower() for word in WORD.findall(name)]
    while words and words[-1] in _REPETITIONS:
        words.pop()
    if not words:
        return False
    return words[-1] in _SECRETS or tuple(words[-2:]) in _PAIRS


def is_secret_key(key: str) -> bool:
    """Whether a key of a configuration names a secret. This includes `Authorization` and `connection_string`."""
    words = [word.lower() for word in WORD.findall(key)]
    while words and words[-1] in _SUFFIXES:
        words.pop()
    if not words:
        return False
    if words[-1] in _SECRET_KEYS or words[-2:] == ["connection", "string"]:
        return True
    return is_secret_name("_".join(words))


def describe_secret_names() -> dict[str, list[str]]:
    """Return the words by which `is_secret_key` recognizes a name, for the page: a name is that of a secret if it ends
    with one of `words` or `pairs`, without the `suffixes` after them.
    """
    return {
        "words": sorted(_SECRETS | _SECRET_KEYS),
        "pairs": sorted([*map(" ".join, _PAIRS), "connection string"]),
        "suffixes": sorted(_SUFFIXES | _REPETITIONS),
    }


def find_secret_values(data: Any, *, is_direct: bool = False, is_inside: bool = False) -> Iterator[str]:
    """Yield the texts below the names of secrets in a configuration. A text may be yielded several times.

    A text directly below such a name is a secret. In a mapping below such a name, all texts except short words are
    secrets: `{credentials: {scheme: basic, value: x1}}` has the secret `x1`. If that mapping has a `type`, it is a
    schema, or its own keys name its secrets: `{credentials: {type: basic, user: u1, password: x1}}` has only the secret
    `x1`.

    Args:
        data: The configuration, or a part of it.
        is_direct: Whether the key of the data names a secret.
        is_inside: Whether the data is in a mapping below the name of a secret, and that mapping has no `type`.
    """
    if isinstance(data, Mapping):
        is_inside = (is_inside or is_direct) and "type" not in data
        for key, item in data.items():
            yield from find_secret_values(item, is_direct=is_secret_key(str(key)), is_inside=is_inside)
    elif isinstance(data, list | tuple):
        for item in data:
            yield from find_secret_values(item, is_direct=is_direct, is_inside=is_inside)
    elif isinstance(data, str) and data:
        is_word = data.isalpha() and len(data) <= _MAX_WORD
        if is_direct or (is_inside and not is_word):
            yield data
            scheme, _, secret = data.partition(" ")
            if secret and scheme.lower() in _SCHEMES:
                yield secret.strip()
