"""What the syntaxes of JSON, YAML and TOML have in common: a tree of values with positions, and the types of an edit.

Example: in the JSON text `{"a": [1]}`, the root is a mapping from 0 to 10. Its member `a` has a list from 6 to 9.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._settings.documents.positions import MAX_DEPTH, TOO_DEEP, KeyPath, Lines, format_key_path
from mcp_bridge._settings.documents.value_text import quote_text

Format: TypeAlias = Literal["json", "jsonc", "yaml", "toml"]

BY_HAND = "Nothing was written. Make the change by hand."


class UnsafeEdit(ConfigError):
    """The text cannot be edited without risk to its other content; nothing was changed."""


class FileChanged(UnsafeEdit):
    """Another program wrote the file in the meantime. Plan the edit again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditTarget:
    """The place of an entry: the keys of its container, its name, and whether the container is a list."""

    within: Sequence[str]
    name: str
    listed: bool = False

    @property
    def where(self) -> str:
        return ".".join([*self.within, self.name])

    def build_missing_member(self, value: dict[str, Any], depth: int) -> tuple[str | None, Any]:
        """Return the key and the value to add to the innermost container that exists, `depth` keys down.

        The value contains the entry in its missing containers. The key is None if an item is added to a list.
        """
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


Kind = Literal["mapping", "list", "scalar", "alias"]
Piece = tuple[int, int, str]
"""A replacement: where the old text begins and ends, and the new text."""


@dataclass(slots=True, kw_only=True)
class Node:
    """A value in a text. `start` and `end` exclude the white space and the comments around it."""

    kind: Kind
    start: int
    end: int
    members: list[Member] = field(default_factory=list)
    commas: Sequence[int] = ()
    """JSON: the positions of the commas between members."""
    comments: Sequence[tuple[int, int]] = ()
    """JSON: the comments between members."""
    text: str = ""
    """YAML: the text of a scalar, or the anchor of an alias."""
    tag: str | None = None
    anchor: str | None = None
    is_flow: bool = False
    is_plain: bool = False
    """YAML: a scalar without quotes."""
    tables: list[tuple[int, int]] | None = None
    """TOML: the tables of the value, each from its header to the end of its last statement."""

    @property
    def is_marked(self) -> bool:
        """Whether other YAML may refer to this value, or its tag changes its meaning."""
        return self.anchor is not None or self.tag is not None or self.kind == "alias"


@dataclass(slots=True, kw_only=True)
class Member:
    """A member of a mapping with its key, or an item of a list with the key None."""

    key: str | None
    start: int
    key_end: int
    value: Node
    key_node: Node | None = None
    is_marked: bool = False
    """YAML: the key or the value is marked."""

    @property
    def end(self) -> int:
        return self.value.end


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryPath:
    """The path to an entry. It ends earlier if the text does not have all containers."""

    containers: Sequence[Node]
    """The root and the containers below it; empty in a text without a value."""
    members: Sequence[Member]
    """The members that lead from each container to the next."""
    entry: Member | None = None
    data: Any = None
    """The entry as plain data."""


class SourceText(Protocol):
    """A parsed text with its edits. Every method raises ConfigError if it cannot edit the text."""

    text: str
    data: Any

    @property
    def root(self) -> Node | None:
        """The only value; None in a text without one."""

    @property
    def comments(self) -> Sequence[tuple[int, int]]:
        """The positions of all comments, where the syntax lets an edit move them."""

    def check_container(self, node: Node, kind: Kind, where: str) -> None:
        """Raise if entries cannot be added to this value or removed from it."""

    def insert(self, path: EntryPath, target: EditTarget, value: dict[str, Any]) -> str:
        """Return the text with the entry and its missing containers."""

    def replace(self, entry: Member, target: EditTarget, value: dict[str, Any]) -> str:
        """Return the text with a new value of the entry."""

    def remove(self, path: EntryPath) -> str:
        """Return the text without the entry at the end of this path."""


def splice(text: str, pieces: Iterable[Piece]) -> str:
    """Replace parts of the text. Insertions at the same position stay in the given order."""
    parts: list[str] = []
    at = 0
    for start, end, new in sorted(pieces, key=lambda piece: piece[0]):
        parts += [text[at:start], new]
        at = max(at, end)
    return "".join([*parts, text[at:]])


def get_line_number(text: str, position: int) -> int:
    """Return the line of a position, from 1."""
    return text.count("\n", 0, position) + 1


def find_line_start(text: str, position: int) -> int:
    return text.rfind("\n", 0, position) + 1


def index_lines(text: str, root: Node | None) -> Lines:
    """Return the line of each key path. Raises ConfigError for a repeated key and for too many levels."""
    if root is None:
        return {}
    breaks = [match.start() for match in re.finditer("\n", text)]
    lines: Lines = {(): bisect.bisect(breaks, root.start) + 1}
    waiting: list[tuple[KeyPath, Node]] = [((), root)]
    while waiting:
        place, node = waiting.pop()
        if node.members and len(place) >= MAX_DEPTH:
            line = bisect.bisect(breaks, node.start) + 1
            raise ConfigError(TOO_DEEP, line=line, where=format_key_path(place), hint="Flatten it.")
        for index, member in enumerate(node.members):
            inner = (*place, index if member.key is None else member.key)
            line = bisect.bisect(breaks, member.start) + 1
            # YAML may merge more than once.
            if inner in lines and member.key != "<<":
                problem = f"key {quote_text(str(member.key))} occurs twice, first in line {lines[inner]}"
                raise ConfigError(problem, line=line, where=format_key_path(inner), hint="Keep one of them.")
            lines[inner] = line
            if member.value.members:
                waiting.append((inner, member.value))
    return lines
