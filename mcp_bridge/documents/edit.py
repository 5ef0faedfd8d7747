"""The types of editing: an edit, its target, and the errors of a text that is left alone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from mcp_bridge.contracts.errors import ConfigError

Format: TypeAlias = Literal["json", "jsonc", "yaml", "toml"]
Undo = Mapping[str, Any]
"""Small JSON data that `editor.drop` needs to leave a text as it was; nothing of the text itself but whitespace."""

BY_HAND = "Nothing was written; make the change by hand."


class Unsafe(ConfigError):
    """A text that cannot be edited without risk to what else is in it; nothing was changed."""


class Changed(Unsafe):
    """Another program has written the file meanwhile: what was planned is to be planned again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A text with the entry in it, and what takes it out again."""

    text: str
    undo: Undo = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where an entry is, or is to be: the keys that lead to its container, its name, and how that knows its entries."""

    within: Sequence[str]
    name: str
    listed: bool = False
    known_by: str = "name"

    @property
    def where(self) -> str:
        """The place as a person reads it."""
        return ".".join([*self.within, self.name])


def unsafe(problem: str, *, line: int | None = None, where: str = "", hint: str = BY_HAND) -> Unsafe:
    """The error for a text that is left alone."""
    return Unsafe(problem, line=line, where=where, hint=hint)


def newline_of(text: str) -> str:
    """The line end that most lines have."""
    pairs = text.count("\r\n")
    singles = text.count("\n") - pairs
    if pairs > singles:
        return "\r\n"
    return "\r" if "\r" in text and not pairs and not singles else "\n"


def lone_return(text: str) -> int | None:
    """The line of the first carriage return that no line feed follows: formats disagree whether it ends a line."""
    found = re.search(r"\r(?!\n)", text)
    return None if found is None else text.count("\n", 0, found.start()) + 1
