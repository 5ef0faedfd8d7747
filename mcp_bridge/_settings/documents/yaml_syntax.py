"""YAML texts: edits of an entry, which is written in block style, on separate lines.

A container in flow style (`{...}`, `[...]`) is edited only if it is empty, and nothing is edited that other parts of
the text may refer to (anchors, aliases and merge keys).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mcp_bridge._settings.documents.syntax import (
    EditTarget,
    EntryPath,
    Kind,
    Member,
    Node,
    detect_newline,
    find_line_start,
    get_line_number,
    make_unsafe_error,
)
from mcp_bridge._settings.documents.yaml_tree import YamlReader, build_tree, is_null

STEP = 2
"""The number of spaces of one level, if the text shows no other."""

_DIRECTIVE = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*%")
_ODD_BREAK = re.compile("[\x85\u2028\u2029\ufeff]")
_LINE = re.compile(r"[^\n]*(?:\n|\Z)")
_LINE_END = re.compile(r"\r?\n")
_EMPTY_VALUE = re.compile(r":([ \t]*(?:\{[ \t]*\}|\[[ \t]*\]|null|Null|NULL|~)?)")
"""A colon and an empty container, or a null in its place."""
_BARE_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_NOT_TEXT = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
"""Words that are not text in YAML 1.1, which some clients read."""
_NOT_PRINTABLE = re.compile("[^\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]|[\u2028\u2029]")


class YamlText:
    """A YAML text with at most one document. Raises ConfigError, with the line, for an invalid one.

    The settings are `strict`: a key is text and occurs once, and a value has no tag of its own.
    """

    # Edits replace whole lines, so they move no comments.
    comments: Sequence[tuple[int, int]] = ()

    def __init__(self, text: str, *, strict: bool = False) -> None:
        self.text = text
        self.root = build_tree(text)
        self.data: Any = None
        if self.root is not None:
            self.data, _ = YamlReader(text, strict=strict).read_node(self.root)

    def check_container(self, node: Node, kind: Kind, where: str) -> None:
        """Raise for a value in flow style and for a marked value. Empty containers pass."""
        line = get_line_number(self.text, node.start)
        if is_null(node) and not node.is_marked and (node is not self.root or not node.text):
            return
        is_empty = is_null(node) or (not node.members and node.is_flow)
        if is_empty and (node.kind != kind or node.is_marked):
            problem = "an anchor, an alias or a tag" if node.is_marked else "not an empty container of the right kind"
            raise make_unsafe_error(problem, line=line, where=where)
        if node.is_marked or any(member.key == "<<" for member in node.members):
            raise make_unsafe_error("an anchor, an alias or a tag", line=line, where=where)
        if node.kind != kind:
            raise make_unsafe_error(f"not a {kind}", line=line, where=where)
        if node.is_flow and not is_empty:
            raise make_unsafe_error("written in brackets, not in lines", line=line, where=where)

    def insert(self, path: EntryPath, target: EditTarget, value: dict[str, Any]) -> str:
        """Write the entry, and its missing containers, on lines after the last entry."""
        text = self.text
        newline = detect_newline(text)
        key, inner = target.build_missing_member(value, len(path.members))
        payload = [inner] if key is None else {key: inner}
        container = path.containers[-1] if path.containers else None
        if container is None or (container is self.root and is_null(container)):
            return _add_lines(text, len(text), _format_block(payload, 0, newline, STEP), newline)
        if container.members:
            column = self._find_column(container)
            at = _find_end_of_entries(text, container.end, column)
        elif not path.members:
            block = _format_block(payload, 0, newline, STEP)
            return text[: container.start] + block + text[container.end :]
        else:
            text, at, column = self._open_container(path.members[-1])
        block = _format_block(payload, column, newline, self._detect_step())
        return _add_lines(text, at, block, newline)

    def replace(self, entry: Member, target: EditTarget, value: dict[str, Any]) -> str:
        start, end = self._find_lines(entry)
        newline = detect_newline(self.text)
        if target.listed:
            column = len(self.text[start : entry.start].split("-", maxsplit=1)[0])
            block = _format_block([value], column, newline, STEP)
        else:
            # The new values get the indentation of the old ones.
            step = 0
            members = entry.value.members
            if members and not entry.value.is_flow:
                column = members[0].start - find_line_start(self.text, members[0].start)
                step = column - (entry.start - start)
            block = _format_block({target.name: value}, entry.start - start, newline, step if step > 0 else STEP)
        return self.text[:start] + block + self.text[end:]

    def remove(self, path: EntryPath) -> str:
        """Remove the entry's lines. An empty container gets brackets."""
        if path.entry is None:
            return self.text
        start, end = self._find_lines(path.entry)
        # The line end after the lines goes with them or, at the end of a text without one, the one before.
        line_end = _LINE_END.match(self.text, end)
        if line_end is not None:
            remaining_text = self.text[:start] + self.text[line_end.end() :]
        else:
            remaining_text = self.text[: max(start - 1, 0)].removesuffix("\r")
        container = path.containers[-1]
        if len(container.members) > 1 or not path.members:
            return remaining_text
        colon = self.text.index(":", path.members[-1].key_end) + 1
        brackets = " []" if container.kind == "list" else " {}"
        return f"{remaining_text[:colon]}{brackets}{remaining_text[colon:]}"

    def _open_container(self, member: Member) -> tuple[str, int, int]:
        """Return the text without an empty container's brackets, and the position and column of its entries."""
        text = self.text
        brackets = _EMPTY_VALUE.fullmatch(text, member.key_end, member.end)
        if brackets is None:
            problem = "an empty container in a form that is not known"
            raise make_unsafe_error(problem, line=get_line_number(text, member.start))
        if text[find_line_start(text, member.start) : member.start].strip(" "):
            raise make_unsafe_error("a key that does not begin its line", line=get_line_number(text, member.start))
        opened_text = text[: brackets.start(1)] + text[brackets.end(1) :]
        column = member.start - find_line_start(text, member.start) + self._detect_step()
        return opened_text, _find_end_of_entries(opened_text, brackets.start(1), column), column

    def _find_lines(self, member: Member) -> tuple[int, int]:
        """Return start and end of a member's lines, without the last line end."""
        text = self.text
        first = find_line_start(text, member.start)
        if re.fullmatch(r" *(?:- +)?", text[first : member.start]) is None:
            raise make_unsafe_error("an entry that does not begin its line", line=get_line_number(text, member.start))
        stop = text.find("\n", member.end)
        if stop < 0:
            stop = len(text)
        if stop > member.end and text[stop - 1] == "\r":
            stop -= 1
        return first, stop

    def _find_column(self, container: Node) -> int:
        """Return the column of the entries of a container. Raises UnsafeEdit unless they begin their lines."""
        first = container.members[0].start
        before = self.text[find_line_start(self.text, first) : first]
        if container.kind == "mapping" and not before.strip(" "):
            return len(before)
        if container.kind == "list" and re.fullmatch(r" *- +", before):
            return before.index("-")
        raise make_unsafe_error("entries that do not begin their lines", line=get_line_number(self.text, first))

    def _detect_step(self) -> int:
        """Return how much deeper than the root its first mapping is indented."""
        if self.root is None or self.root.kind != "mapping":
            return STEP
        for member in self.root.members:
            value = member.value
            if value.kind == "mapping" and not value.is_flow and value.members:
                column = value.members[0].start - find_line_start(self.text, value.members[0].start)
                if 0 < column <= 8:
                    return column
        return STEP


def check_editable(text: str) -> None:
    """Raise UnsafeEdit for characters that some readers take for line ends, and for directives."""
    match = _ODD_BREAK.search(text)
    if match:
        raise make_unsafe_error(
            "a character that some readers of YAML take for a line end", line=get_line_number(text, match.start())
        )
    if _DIRECTIVE.match(text):
        raise make_unsafe_error("a directive (a line that begins with %)")


def _format_block(payload: Any, column: int, newline: str, step: int) -> str:
    """Format the payload in block style, without the last line end."""
    return newline.join(" " * column + line for line in _format_lines(payload, step))


def _format_lines(payload: Any, step: int) -> Iterator[str]:
    if isinstance(payload, list):
        for item in payload:
            lines = _format_lines(item, step) if _has_members(item) else iter([_format_scalar(item)])
            yield f"- {next(lines)}"
            yield from (f"  {line}" for line in lines)
        return
    for key, value in payload.items():
        is_bare = _BARE_KEY.fullmatch(key) and key.lower() not in _NOT_TEXT
        name = key if is_bare else _format_scalar(key)
        if _has_members(value):
            yield f"{name}:"
            yield from (" " * step + line for line in _format_lines(value, step))
        else:
            yield f"{name}: {_format_scalar(value)}"


def _has_members(value: Any) -> bool:
    return isinstance(value, Mapping | list) and bool(value)


def _format_scalar(value: Any) -> str:
    """Format a value in one line. Text is always in double quotes, so that no reader takes it for something else."""
    text = json.dumps(value, ensure_ascii=False)
    return _NOT_PRINTABLE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def _add_lines(text: str, at: int, block: str, newline: str) -> str:
    """Insert lines at the end of a line."""
    if at < len(text):
        return f"{text[:at]}{block}{newline}{text[at:]}"
    if not text or text.endswith("\n"):
        return f"{text}{block}{newline}"
    return f"{text}{newline}{block}"


def _find_end_of_entries(text: str, at: int, column: int) -> int:
    """Return the start of the line after the entries, and after the comments below them with their indentation."""
    line = _LINE.match(text, at)
    end = len(text) if line is None else line.end()
    comment = re.compile(rf" {{{column},}}#[^\n]*(?:\n|\Z)")
    match = comment.match(text, end)
    while match is not None and match.end() > end and text[end - 1] == "\n":
        end = match.end()
        match = comment.match(text, end)
    return end
