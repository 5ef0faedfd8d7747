"""How an object or list of a JSON text is laid out, and how a new member of it is written alike."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mcp_bridge.documents.edit import newline_of
from mcp_bridge.documents.json_syntax import Source, Span, Value

INDENT = "  "
WIDE = 64
"""White space in an empty container that is longer than this is left where it is, and not remembered."""

_BREAK = re.compile(rb"[\r\n]")
_BLANK = b" \t\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How members are written: each on a line of its own, indented so, or in one line with these separators."""

    indent: str | None
    """None: in one line."""
    unit: str
    newline: str
    comma: str = ", "
    colon: str = ": "

    def member(self, key: str | None, value: Any) -> bytes:
        """A member's text, without what stands before it."""
        text = self.value(value)
        return (text if key is None else f"{_text(key)}{self.colon}{text}").encode()

    def value(self, value: Any) -> str:
        """A value's text, to be put where a member of this layout begins."""
        if self.indent is None:
            return json.dumps(value, ensure_ascii=False, separators=(self.comma, self.colon))
        lines = json.dumps(value, ensure_ascii=False, indent=self.unit, separators=(",", self.colon)).split("\n")
        return f"{self.newline}{self.indent}".join(lines)

    def gap(self) -> bytes:
        """What stands before a member that begins a line; in one line, nothing."""
        return b"" if self.indent is None else f"{self.newline}{self.indent}".encode()


def of(source: Source, container: Value) -> Layout:
    """The layout that the container's members have or, where there are none, would have."""
    newline = newline_of(source.data.decode())
    indents = _indents(source, container)
    unit = _unit(source, container)
    colon, comma = _separators(source, container)
    indent: str | None = None
    if indents:
        indent = indents[-1]
    elif not container.members and not _is_minified(source):
        indent = indent_at(source, container.span[0]) + unit
    return Layout(indent=indent, unit=unit, newline=newline, comma=comma, colon=colon)


def rest(source: Source, container: Value) -> Span:
    """The white space after a container's last member, comma or comment, before it closes."""
    start, end = container.span
    ends = [end for _, end in container.comments] + [member.end for member in container.members]
    return max([start + 1, *ends, *(comma + 1 for comma in container.commas)]), end - 1


def has_break(text: bytes) -> bool:
    """Whether there is a line end."""
    return _BREAK.search(text) is not None


def indent_at(source: Source, offset: int) -> str:
    """The indentation of the line in which something stands."""
    line = re.split(rb"[\r\n]", source.data[:offset])[-1]
    return line[: len(line) - len(line.lstrip(b" \t"))].decode()


def _indents(source: Source, container: Value) -> Sequence[str]:
    """The indentation of each member that begins a line."""
    found = []
    for member in container.members:
        before = source.data[: member.start]
        kept = before.rstrip(b" \t")
        if _BREAK.match(kept[-1:]):
            found.append(before[len(kept) :].decode())
    return found


def _unit(source: Source, container: Value) -> str:
    """What one level is indented by: seen in the container, else in the whole, else two spaces."""
    for value in (container, source.root):
        indents = [] if value is None else _indents(source, value)
        outer = "" if value is None else indent_at(source, value.span[0])
        if indents and indents[-1].startswith(outer) and len(indents[-1]) > len(outer):
            return indents[-1][len(outer) :]
    return INDENT


def _is_minified(source: Source) -> bool:
    root = source.root
    return root is not None and bool(root.members) and not has_break(source.data[slice(*root.span)])


def _separators(source: Source, container: Value) -> tuple[str, str]:
    """The colon and the comma as the neighbours in one line write them, white space included."""
    neighbours = [*container.members, *(source.root.members if source.root else ())]
    colon = next((member.colon for member in neighbours if re.fullmatch(r" ?: ?", member.colon)), ": ")
    for value in (container, source.root):
        for comma in value.commas if value else ():
            after = source.data[comma + 1 :]
            if not has_break(after[: len(after) - len(after.lstrip(_BLANK))]):
                return colon, ", " if after[:1] == b" " else ","
    return colon, ", " if colon.endswith(" ") else ","


def _text(key: str) -> str:
    return json.dumps(key, ensure_ascii=False)
