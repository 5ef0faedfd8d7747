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
SHORTEST = 4
"""Shorter values are too common to be told from ordinary text."""
_SHORTEST_PART = 8
"""Characters that a line of a secret, or a piece of its base64, must have to be searched for by itself."""


class Redactor:
    """Writes `[secret]` for every secret, also as `repr`, JSON, URLs and base64 write it.

    Of a secret with several lines each line is one too. Values of fewer than 4 characters are left alone.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._forms: list[str] = []
        self._shortest = 0
        self._numbers = False
        self._pattern: re.Pattern[str] | None = None
        self.hide(secrets)

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to hide."""
        return not self._forms

    def hide(self, secrets: Iterable[str]) -> None:
        """Hide these too from now on."""
        found = {form for secret in secrets if len(secret) >= SHORTEST for form in _forms(secret)}
        if not found:
            return
        self._forms = sorted(found.union(self._forms), key=lambda form: (-len(form), form))
        self._pattern = re.compile("|".join(map(re.escape, self._forms)))
        self._shortest = len(self._forms[-1])
        self._numbers = any(_is_number(form) for form in self._forms)

    def text(self, text: str) -> str:
        """The text without the secrets; where it has none, the same object."""
        if self._pattern is None or not self._within(text):
            return text
        return self._pattern.sub(MARK, text)

    def value(self, value: T) -> T:
        """JSON-ready data without the secrets, in keys too; where it has none, the same object."""
        if self._pattern is None or not self._anywhere(value):
            return value
        made: T = self._without(value)
        return made

    def _within(self, text: str) -> bool:
        """Faster in long texts than the pattern, by a factor of ten."""
        return len(text) >= self._shortest and any(form in text for form in self._forms)

    def _anywhere(self, value: Any) -> bool:
        if isinstance(value, str):
            return self._within(value)
        if isinstance(value, dict):
            return any(self._within(key) or self._anywhere(item) for key, item in value.items())
        if isinstance(value, list | tuple):
            return any(map(self._anywhere, value))
        return self._numbers and isinstance(value, int | float) and self._within(str(value))

    def _without(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(key): self._without(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._without(item) for item in value]
        return MARK if self._anywhere(value) else value


def _forms(secret: str) -> Iterator[str]:
    """How the secret is written, by those who write it."""
    lines = [line for line in map(str.strip, secret.splitlines()) if len(line) >= _SHORTEST_PART]
    for text in {secret, secret.strip() if len(secret.strip()) >= SHORTEST else secret, *lines}:
        data = text.encode(errors="surrogatepass")
        yield from (text, repr(text)[1:-1], repr(f'"{text}')[2:-1])  # the last as where both quotes are in it
        yield from (repr(data)[2:-1], repr(b'"' + data)[3:-1])
        for plain in (True, False):
            once = dumps(text, ensure_ascii=plain)[1:-1]
            yield from (once, dumps(once, ensure_ascii=plain)[1:-1])
        yield from (quote(text, safe="", errors="replace"), quote(text, errors="replace"))
        yield quote_plus(text, errors="replace")
        yield from _base64(data)


def _base64(data: bytes) -> Iterator[str]:
    """Its base64, and what of it is the same wherever the data stands in something longer."""
    pieces = [b64encode(data).decode().rstrip("=")]
    for before, first in enumerate((0, 2, 3)):  # bytes before it, and the first character that these do not touch
        whole = b64encode(bytes(before) + data).decode()
        piece = whole[first : (before + len(data)) * 8 // 6]
        if len(piece) >= _SHORTEST_PART:
            pieces.append(piece)
    for piece in pieces:
        yield piece
        yield piece.replace("+", "-").replace("/", "_")


def _is_number(text: str) -> bool:
    return not text.strip("0123456789.e+-")
