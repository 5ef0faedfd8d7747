"""The types of editing: the target of an edit, and the errors of a text that is left alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from mcp_bridge._contracts.errors import ConfigError

Format: TypeAlias = Literal["json", "jsonc", "yaml", "toml"]

BY_HAND = "Nothing was written. Make the change by hand."


class UnsafeEdit(ConfigError):
    """The text cannot be edited without risk to its other content; nothing was changed."""


class FileChanged(UnsafeEdit):
    """Another program wrote the file in the meantime. Plan the edit again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditTarget:
    """The place of an entry: the keys that lead to its container, its name, and whether the container is a list."""

    within: Sequence[str]
    name: str
    listed: bool = False

    @property
    def where(self) -> str:
        return ".".join([*self.within, self.name])

    def build_missing_member(self, value: dict[str, Any], depth: int) -> tuple[str | None, Any]:
        """Return what to add `depth` keys down: its key (None: an item), and its value with the missing containers."""
        missing = self.within[depth:]
        nested: Any = [value] if self.listed else {self.name: value}
        for key in reversed(missing[1:]):
            nested = {key: nested}
        if missing:
            return missing[0], nested
        return None if self.listed else self.name, value


def make_unsafe_error(problem: str, *, line: int | None = None, where: str = "", hint: str = BY_HAND) -> UnsafeEdit:
    return UnsafeEdit(problem, line=line, where=where, hint=hint)


def detect_newline(text: str) -> str:
    """Return the line end of most lines."""
    pairs = text.count("\r\n")
    singles = text.count("\n") - pairs
    if pairs > singles:
        return "\r\n"
    return "\r" if "\r" in text and not pairs and not singles else "\n"
