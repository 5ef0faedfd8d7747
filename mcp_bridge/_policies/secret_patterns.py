"""Patterns of common secrets and personal data, by name, for the policy `redact`.

They are in the syntax of RE2, which matches in linear time, except those that redact numbers of payment cards. These
are patterns of Python, because Luhn's check decides about each match.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

PATTERNS: Mapping[str, str] = {
    "anthropic_key": r"\bsk-ant-[A-Za-z0-9_-]{20,}",
    "aws_access_key": r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b",
    "bearer_token": r"(?i)\bbearer\s+[A-Za-z0-9._~+/-]{16,}=*",
    "github_token": r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})",
    "gitlab_token": r"\bglpat-[A-Za-z0-9_-]{20,}",
    "google_api_key": r"\bAIza[A-Za-z0-9_-]{35}",
    "jwt": r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
    "npm_token": r"\bnpm_[A-Za-z0-9]{36}\b",
    "openai_key": r"\bsk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{32,}",
    "private_key": r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----[\s\S]*?-----END (?:[A-Z0-9]+ )*PRIVATE KEY-----",
    "pypi_token": r"\bpypi-[A-Za-z0-9_-]{50,}",
    "slack_token": r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
    "stripe_key": r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}",
    "url_password": r"\b[A-Za-z][A-Za-z0-9+.-]*://[^/?#\s:@]*:[^/?#\s@]+@",
    "credit_card": r"\b[0-9](?:[ -]?[0-9]){12,18}\b",
    "email": r"\b[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+\b",
    "iban": r"\b[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b",
    "us_ssn": r"\b[0-9]{3}-[0-9]{2}-[0-9]{4}\b",
}
_CARD = re.compile(PATTERNS["credit_card"], re.ASCII)
_CARD_LAYOUT = re.compile(
    r"\b(?=(?P<group>[0-9]{4,19}))(?:[0-9]{13,19}|[0-9]{4}(?:[ -][0-9]{4}){2}[ -][0-9]{1,4}"
    r"|[0-9]{4}[ -][0-9]{6}[ -][0-9]{4,5})\b",
    re.ASCII,
)
"""The digits of a card in their usual groups, such as `4111 1111 1111 1111`. Other digits, such as an expiry date, may
precede or follow them. The named group has the first digits."""
_DOUBLED = str.maketrans("0123456789", "0246813579")
"""Replaces each digit by the sum of the digits of its double, for Luhn's check."""
SECRETS = "secrets"
PERSONAL = ("credit_card", "email", "iban", "us_ssn")
"""Names of the patterns of personal data. All others are patterns of secrets, and included in `secrets`."""


def expand_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of patterns, with those of all secrets in the place of `secrets`. Raises ValueError."""
    patterns: dict[str, None] = {}
    for name in names:
        if name == SECRETS:
            patterns.update((secret, None) for secret in PATTERNS if secret not in PERSONAL)
        elif name in PATTERNS:
            patterns[name] = None
        else:
            raise ValueError(f"expected one of {', '.join((SECRETS, *PATTERNS))}")
    return tuple(patterns)


def redact_card_numbers(text: str, mark: str) -> str:
    """Replace payment card numbers, even next to other digits, such as an expiry date."""
    segments: list[str] = []
    end = position = 0
    while match := _CARD_LAYOUT.search(text, position):
        # A match may begin with other digits. If it is no card number, one may begin at the next group of digits.
        position = match.end("group")
        if _is_card_number(match[0]):
            segments += (text[end : match.start()], mark)
            end = position = match.end()
    segments.append(text[end:])

    def replace_number(match: re.Match[str]) -> str:
        return mark if _is_card_number(match[0]) else match[0]

    # Numbers in other groups are found only if no other digits are next to them.
    return _CARD.sub(replace_number, "".join(segments))


def _is_card_number(text: str) -> bool:
    """Return whether the digits of a text have the check digit of a payment card (ISO/IEC 7812-1, Luhn)."""
    digits = text.replace(" ", "").replace("-", "")
    # From the right, every second digit is doubled.
    single = digits[-1::-2]
    doubled = digits[-2::-2].translate(_DOUBLED)
    return sum(map(int, single + doubled)) % 10 == 0
