"""Redaction: removes secret values from text and from JSON-ready data."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator
from json import dumps
from typing import Any, TypeVar
from urllib.parse import quote, quote_plus

T = TypeVar("T")

MARK = "[secret]"
MIN_LENGTH = 4
"""Shorter values cannot be distinguished from ordinary text."""
GUESSABLE = 8
"""Secrets with fewer characters can be guessed by clients of a tool that returns its input."""
_MIN_PART_LENGTH = 8
"""The fewest characters of a line of a secret, or of a part of its base64, that is searched for on its own."""


class Redactor:
    """Replaces secrets by `[secret]`, also where `repr`, JSON, a URL or base64 has encoded them.

    Each line of a secret with several lines is a secret too. Values of fewer than 4 characters are not. `version`
    changes with the secrets.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._forms: list[str] = []
        self._shortest = 0
        self._numbers = False
        self._pattern: re.Pattern[str] | None = None
        self.version = 0
        self.add_secrets(secrets)

    @property
    def is_empty(self) -> bool:
        return not self._forms

    def add_secrets(self, secrets: Iterable[str]) -> None:
        """Redact these secrets too from now on."""
        found = {form for secret in secrets if len(secret) >= MIN_LENGTH for form in _list_forms(secret)}
        if not found:
            return
        self.version += 1
        self._forms = sorted(found.union(self._forms), key=lambda form: (-len(form), form))
        self._pattern = re.compile("|".join(map(re.escape, self._forms)))
        self._shortest = len(self._forms[-1])
        self._numbers = any(_is_number(form) for form in self._forms)

    def redact_text(self, text: str) -> str:
        """Return the text without secrets; the same object if it has none."""
        if self._pattern is None or not self._has_secret(text):
            return text
        return self._pattern.sub(MARK, text)

    def redact_value(self, value: T) -> T:
        """Return JSON-ready data without secrets, also in keys; the same object if it has none."""
        if self._pattern is None or not self._has_secret_inside(value):
            return value
        redacted: T = self._redact_inside(value)
        return redacted

    def _has_secret(self, text: str) -> bool:
        # In long texts this is ten times as fast as the pattern.
        return len(text) >= self._shortest and any(form in text for form in self._forms)

    def _has_secret_inside(self, value: Any) -> bool:
        if isinstance(value, str):
            return self._has_secret(value)
        if isinstance(value, dict):
            return any(self._has_secret(key) or self._has_secret_inside(item) for key, item in value.items())
        if isinstance(value, list | tuple):
            return any(map(self._has_secret_inside, value))
        return self._numbers and isinstance(value, int | float) and self._has_secret(str(value))

    def _redact_inside(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.redact_text(value)
        if isinstance(value, dict):
            return {self.redact_text(key): self._redact_inside(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._redact_inside(item) for item in value]
        return MARK if self._has_secret_inside(value) else value


def _list_forms(secret: str) -> Iterator[str]:
    lines = [line for line in map(str.strip, secret.splitlines()) if len(line) >= _MIN_PART_LENGTH]
    for text in {secret, secret.strip() if len(secret.strip()) >= MIN_LENGTH else secret, *lines}:
        data = text.encode(errors="surrogatepass")
        yield from (text, repr(text)[1:-1], repr(f'"{text}')[2:-1])  # the last: in a text that has both kinds of quotes
        yield from (repr(data)[2:-1], repr(b'"' + data)[3:-1])
        for plain in (True, False):
            once = dumps(text, ensure_ascii=plain)[1:-1]
            yield from (once, dumps(once, ensure_ascii=plain)[1:-1])
        yield from (quote(text, safe="", errors="replace"), quote(text, errors="replace"))
        yield quote_plus(text, errors="replace")
        yield from _list_base64_forms(data)


def _list_base64_forms(data: bytes) -> Iterator[str]:
    """Yield its base64, and the parts of it that are the same wherever the data is inside longer data."""
    pieces = [b64encode(data).decode().rstrip("=")]
    for before, first in enumerate((0, 2, 3)):  # bytes before it, and the first character that does not depend on them
        whole = b64encode(bytes(before) + data).decode()
        piece = whole[first : (before + len(data)) * 8 // 6]
        if len(piece) >= _MIN_PART_LENGTH:
            pieces.append(piece)
    for piece in pieces:
        yield piece
        yield piece.replace("+", "-").replace("/", "_")


def _is_number(text: str) -> bool:
    return not text.strip("0123456789.e+-")
