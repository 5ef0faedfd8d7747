"""Redacts secret values in text and in JSON-ready data.

Nearly all texts have no secret, so they are searched for short landmarks first (`secret_forms.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from mcp_bridge._runtime.secret_forms import SecretForm

T = TypeVar("T")
MARK = "[secret]"
GUESSABLE = 8
"""The length below which a client can guess a secret: it tries texts with a tool that returns its input, and sees which
of them are redacted."""


class Redactor:
    """Replaces secrets by `[secret]`, also in the encodings of `repr`, JSON, URLs, HTML and Base64.

    Each line of a secret with several lines is a secret too, and so is the password of a URL. Values of fewer than 4
    characters are not redacted.

    Attributes:
        substitutions: Functions to replace other text.
        version: A number, changed by new secrets and substitutions.
        is_empty: Whether there is nothing to replace.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._parts: frozenset[str] = frozenset()
        self._landmarks: list[tuple[str, SecretForm]] = []
        self._shortest = 0
        self._searches_numbers = False
        self.substitutions: list[Callable[[str], str]] = []
        self._get_pattern = lru_cache(maxsize=64)(_compile_forms)
        self.version = 0
        self.is_empty = True
        self.add_secrets(secrets)

    def add_substitution(self, substitute: Callable[[str], str]) -> None:
        """Apply a function to all text from now on. It returns the same text if there is nothing to replace."""
        self.version += 1
        self.is_empty = False
        self.substitutions.append(substitute)
        # It may replace the text of a number.
        self._searches_numbers = True

    def add_secrets(self, secrets: Iterable[str], *, vocabulary: str = "") -> None:
        """Redact these secrets too from now on, except texts in the vocabulary."""
        secrets = list(secrets)
        if not secrets:
            return
        # Most servers have no secrets, so their start does not need this module.
        from mcp_bridge._runtime.secret_forms import list_forms, list_parts

        parts = set().union(*map(list_parts, secrets)) - self._parts
        new_parts = {part for part in parts if part not in vocabulary}
        if not new_parts:
            return
        self.version += 1
        self.is_empty = False
        self._parts |= new_parts
        forms = set().union(*map(list_forms, self._parts))
        self._landmarks = []
        # The longest forms come first, because others may be parts of them.
        for form in sorted(forms, key=lambda form: (-len(form.text), form.text)):
            self._landmarks += [(landmark, form) for landmark in form.landmarks]
        self._shortest = min(map(len, self._parts))
        # Numbers are searched only if a secret consists of their characters.
        if any(not part.strip("0123456789.e+-") for part in self._parts):
            self._searches_numbers = True

    def redact_text(self, text: str) -> str:
        """Return the text without secrets. It is the same object if it has none."""
        pattern = self._find_pattern(text)
        if pattern is not None:
            text = pattern.sub(MARK, text)
        for substitute in self.substitutions:
            text = substitute(text)
        return text

    def redact_value(self, value: T) -> T:
        """Return JSON-ready data without secrets in values and keys. It is the same object if it has none."""
        if not self._has_secret_inside(value):
            return value
        copy: T = self._redact_inside(value)
        return copy

    def _find_pattern(self, text: str) -> re.Pattern[str] | None:
        """Return a pattern for the secrets in a text, or None if there are none."""
        if len(text) < self._shortest or not self._landmarks:
            return None
        forms = [form for landmark, form in self._landmarks if landmark in text]
        if not forms:
            return None
        pattern = self._get_pattern(*forms)
        return pattern if pattern.search(text) is not None else None

    def _has_secret(self, text: str) -> bool:
        if self._find_pattern(text) is not None:
            return True
        return any(substitute(text) != text for substitute in self.substitutions)

    def _has_secret_inside(self, value: Any) -> bool:
        """Whether JSON-ready data has a secret in a value or a key."""
        if isinstance(value, str):
            return self._has_secret(value)
        if isinstance(value, dict):
            return any(self._has_secret(key) or self._has_secret_inside(item) for key, item in value.items())
        if isinstance(value, list | tuple):
            return any(map(self._has_secret_inside, value))
        return self._searches_numbers and isinstance(value, int | float) and self._has_secret(str(value))

    def _redact_inside(self, value: Any) -> Any:
        """Return a copy of JSON-ready data without secrets."""
        if isinstance(value, str):
            return self.redact_text(value)
        if isinstance(value, dict):
            return {self.redact_text(key): self._redact_inside(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._redact_inside(item) for item in value]
        return MARK if self._has_secret_inside(value) else value


def _compile_forms(*forms: SecretForm) -> re.Pattern[str]:
    return re.compile("|".join(form.pattern for form in dict.fromkeys(forms)))
