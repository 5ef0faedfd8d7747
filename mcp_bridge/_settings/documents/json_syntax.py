"""JSON texts, with or without comments and trailing commas: the positions of values, and edits of an entry.

Python's parser decides what is valid. Before that, comments and trailing commas are replaced by spaces, so that all
positions stay. The positions of values are those of the tokens of the text (`_build_tree`).

A new entry is written like its neighbours: on lines with their indentation, or in one line (`_Layout`). When it is
removed, the white space before it and one comma are removed too.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._settings.documents.positions import MAX_DEPTH, TOO_DEEP
from mcp_bridge._settings.documents.syntax import (
    EditTarget,
    EntryPath,
    Kind,
    Member,
    Node,
    Piece,
    detect_newline,
    get_line_number,
    make_unsafe_error,
    splice,
)

INDENT = "  "
WIDE = 64
"""White space in an empty container that is longer than this is left where it is, and not remembered."""

# A string or comment that does not end extends to the end of the text, because another search for its end at each
# quote or slash would take quadratic time.
_TOKEN = re.compile(
    r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\Z)|//[^\r\n]*|/\*.*?(?:\*/|\Z)|[{}\[\],:]|[^\s{}\[\],:"/]+|\S', re.DOTALL
)
_BLANK = " \t\r\n"
_BREAK = re.compile(r"[\r\n]")
_NOT_A_BREAK = re.compile(r"[^\r\n]")
_KINDS: dict[str, Kind] = {"{": "mapping", "[": "list"}
_NAMES: dict[Kind, str] = {"mapping": "an object", "list": "a list"}


class JsonText:
    """A JSON text. Raises ConfigError, with the line, for an invalid one.

    With `depth`, the tree ends there, because an edit of a large file needs the positions of few of its values.
    """

    def __init__(self, text: str, *, allow_comments: bool = False, depth: int | None = None) -> None:
        self.text = text
        self._depth = depth
        bare, self.comments = _replace_comments(text) if allow_comments else (text, [])
        self._is_empty = not bare.strip(_BLANK)
        self.data: Any = None if self._is_empty else _load_json(bare, text)

    @functools.cached_property
    def root(self) -> Node | None:
        """The only value; None in a text of nothing but comments and white space."""
        return None if self._is_empty else _build_tree(self.text, self._depth)

    def check_container(self, node: Node, kind: Kind, where: str) -> None:
        if node.kind != kind:
            raise make_unsafe_error(f"not {_NAMES[kind]}", line=get_line_number(self.text, node.start), where=where)

    def insert(self, path: EntryPath, target: EditTarget, value: dict[str, Any]) -> str:
        """Add the entry after the last member of its container."""
        text = self.text
        key, payload = target.build_missing_member(value, len(path.members))
        if not path.containers:
            return self._insert_root({key or target.name: payload})
        container = path.containers[-1]
        start, end = _find_rest(container)
        space = text[start:end]
        layout = _detect_layout(text, self.root, container)
        if not container.members and layout.indent is not None and not _has_break(space):
            if len(space) > WIDE:
                layout = replace(layout, indent=None)
            else:
                space = f"{layout.newline}{_get_indent(text, container.start)}"
        member = layout.format_value(payload)
        if key is not None:
            member = f"{json.dumps(key, ensure_ascii=False)}{layout.colon}{member}"
        pieces = [*_insert_member(text, container, layout, member), (start, end, space)]
        return splice(text, pieces)

    def replace(self, entry: Member, target: EditTarget, value: dict[str, Any]) -> str:
        """Write the value in the layout of the old one."""
        node = entry.value
        layout = _detect_layout(self.text, self.root, node)
        is_wide = _has_break(self.text[node.start : node.end]) or (not node.members and layout.indent is not None)
        indent = _get_indent(self.text, entry.start) if is_wide else None
        layout = replace(layout, indent=indent)
        return splice(self.text, [(node.start, node.end, layout.format_value(value))])

    def remove(self, path: EntryPath) -> str:
        """Remove the entry with the white space before it and its comma."""
        if path.entry is None:
            return self.text
        return splice(self.text, _remove_member(self.text, path.containers[-1], path.entry))

    def _insert_root(self, data: dict[str, Any]) -> str:
        """Add a value after the comments of a text without one."""
        newline = detect_newline(self.text)
        root_text = _Layout(indent="", unit=INDENT, newline=newline).format_value(data)
        at = max([end for _, end in self.comments], default=0)
        before = newline if at else ""
        after = "" if self.text[at:] else newline
        return splice(self.text, [(at, at, before + root_text + after)])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """How members are written: each on a line of its own with this indentation, or in one line."""

    indent: str | None
    """None: in one line."""
    unit: str
    newline: str
    comma: str = ", "
    colon: str = ": "

    def format_value(self, value: Any) -> str:
        if self.indent is None:
            return json.dumps(value, ensure_ascii=False, separators=(self.comma, self.colon))
        lines = json.dumps(value, ensure_ascii=False, indent=self.unit, separators=(",", self.colon)).split("\n")
        return f"{self.newline}{self.indent}".join(lines)


def _replace_comments(text: str) -> tuple[str, Sequence[tuple[int, int]]]:
    """Replace comments and trailing commas by spaces. The length and the lines stay."""
    comments: list[tuple[int, int]] = []
    commas: list[tuple[int, int]] = []
    # The last token that is not a comment, and the position of a comma if it is one that may be trailing.
    before = ""
    comma = -1
    for match in _TOKEN.finditer(text):
        piece = match.group()
        start, end = match.span()
        # A comment that does not end is left for the parser to reject. The shortest one that ends is `/**/`.
        if piece.startswith("//") or (piece.startswith("/*") and piece.endswith("*/") and len(piece) > 3):
            if piece[1] == "/" and re.search("[\u2028\u2029]", piece):
                problem = "a character in a comment that some readers of JSON take for a line end"
                raise ConfigError(problem, line=get_line_number(text, start), hint="Remove it.")
            comments.append((start, end))
            continue
        if piece in "}]" and comma >= 0:
            commas.append((comma, comma + 1))
        follows_value = before not in {"", ",", "[", "{", ":"}
        comma = start if piece == "," and follows_value else -1
        before = piece
    pieces = [(start, end, _NOT_A_BREAK.sub(" ", text[start:end])) for start, end in (*comments, *commas)]
    return splice(text, pieces), comments


def _load_json(bare: str, text: str) -> Any:
    """Parse strict JSON. Raises ConfigError, with a hint at comments if only these are wrong."""
    hint = "Check the commas, double quotes and brackets there and in the line before."
    line: int | None = None
    _check_depth(bare)
    try:
        return json.loads(bare, parse_constant=_reject_constant)
    except json.JSONDecodeError as error:
        problem, line = f"not valid JSON: {error.msg}, column {error.colno}", error.lineno
    except _ConstantError as error:
        matches = (match for match in _TOKEN.finditer(text) if match.group() == str(error))
        line = next((get_line_number(text, match.start()) for match in matches), None)
        problem, hint = "found a number that is infinite or not a number", "Write a finite number."
    except ValueError:
        # Python refuses to read whole numbers beyond some thousand digits.
        problem, hint = "a number of too many digits", "Write it in quotes."
    if bare == text:
        with contextlib.suppress(ConfigError, ValueError, RecursionError):
            bare, _ = _replace_comments(text)
            json.loads(bare, parse_constant=_reject_constant)
            problem, hint = "comments or trailing commas, which are not allowed in this file", "Remove them."
    raise ConfigError(problem, line=line, hint=hint)


def _check_depth(text: str) -> None:
    """Raise ConfigError for deeply nested text. The limit of Python differs between its versions."""
    depth = 0
    for match in _TOKEN.finditer(text):
        if match[0] in "{[":
            depth += 1
        elif match[0] in "}]":
            depth -= 1
        if depth > MAX_DEPTH:
            raise ConfigError(TOO_DEEP, line=get_line_number(text, match.start()), hint="Flatten it.")


class _ConstantError(ValueError):
    """A text has NaN or Infinity, which Python's parser reads although JSON does not have them."""


def _reject_constant(name: str) -> NoReturn:
    raise _ConstantError(name)


def _build_tree(text: str, depth: int | None) -> Node:
    """Build the tree of a valid text. Containers below `depth` get no members.

    The stack has the open containers, each with the commas and comments between its members.
    """
    # The root is the only item of this list.
    top = Node(kind="list", start=0, end=len(text))
    node = top
    # The number of open containers below `depth`, whose tokens are skipped.
    skipped = 0
    commas: list[int] = []
    comments: list[tuple[int, int]] = []
    stack = [(top, commas, comments)]
    key: tuple[str, int, int] | None = None
    for match in _TOKEN.finditer(text):
        piece = match.group()
        start, end = match.span()
        sign = piece[0]
        if skipped:
            if sign in "{[":
                skipped += 1
            elif sign in "}]":
                skipped -= 1
            node.end = end
        elif sign == "/":
            comments.append((start, end))
        elif sign == ",":
            commas.append(start)
        elif sign in "}]":
            node, _, _ = stack.pop()
            node.end = end
            node.commas = commas
            node.comments = comments
            _, commas, comments = stack[-1]
        elif sign == '"' and key is None and stack[-1][0].kind == "mapping":
            key = json.loads(piece) if "\\" in piece else piece[1:-1], start, end
        elif sign != ":":
            node = Node(kind=_KINDS.get(sign, "scalar"), start=start, end=end)
            name, begin, key_end = key or (None, start, start)
            stack[-1][0].members.append(Member(key=name, start=begin, key_end=key_end, value=node))
            key = None
            if node.kind != "scalar" and len(stack) - 1 == depth:
                skipped = 1
            elif node.kind != "scalar":
                commas, comments = [], []
                stack.append((node, commas, comments))
    return top.members[0].value


def _insert_member(text: str, container: Node, layout: _Layout, member: str) -> Iterator[Piece]:
    """Insert a comma after the last member, and the new member after the last comment."""
    start, end = _find_rest(container)
    last = container.members[-1].end if container.members else None
    has_comma = last is not None and any(comma >= last for comma in container.commas)
    gap = "" if layout.indent is None else f"{layout.newline}{layout.indent}"
    if not gap and _is_after_line_comment(text, container, start):
        gap = layout.newline
    elif not gap and last is not None:
        gap = layout.comma[1:]
    elif not gap and text[start:end] == " ":
        gap = " "
    if last is not None and not has_comma:
        yield last, last, ","
    yield start, start, gap + member + ("," if has_comma else "")


def _remove_member(text: str, container: Node, member: Member) -> Sequence[Piece]:
    """Remove a member, the white space before it, and one comma: the one after it, else the one before it."""
    first = container.start + 1
    last = container.end - 1
    ends = [sibling.end for sibling in container.members] + [end for _, end in container.comments]
    ends += [comma + 1 for comma in container.commas]
    # The end of what precedes the member, and the start of the next one or of the closing bracket.
    before = max([first, *(end for end in ends if end <= member.start)])
    next_start = min([last, *(sibling.start for sibling in container.members if sibling.start >= member.end)])
    commas_after = [comma for comma in container.commas if member.end <= comma < next_start]
    commas_before = [comma for comma in container.commas if comma < member.start]
    start = before
    end = member.end
    pieces: list[Piece] = []
    if commas_after and not text[end : commas_after[0]].strip(_BLANK):
        end = commas_after[0] + 1
    elif commas_after:
        # A comment is between the member and its comma.
        pieces.append((commas_after[0], commas_after[0] + 1, ""))
    elif commas_before:
        pieces.append((commas_before[-1], commas_before[-1] + 1, ""))
    follows_line_comment = _is_after_line_comment(text, container, before)
    if before == first and not _has_break(text[before : member.start]):
        # The first member of a line leaves its white space to the next one.
        space = len(text[end:next_start]) - len(text[end:next_start].lstrip(_BLANK))
        if next_start < last and not _has_break(text[end : end + space]):
            start, end = member.start, end + space
    elif follows_line_comment and text[end:last].lstrip(" \t")[:1] not in {"\r", "\n"}:
        # Without the line end before the member, the comment would include what follows.
        start = member.start
    if len(container.members) == 1 and not text[end:last].strip(_BLANK) and not follows_line_comment:
        end = last
    return [(start, end, ""), *pieces]


def _find_rest(container: Node) -> tuple[int, int]:
    """Find the white space between a container's last member, comma or comment and its closing bracket."""
    ends = [end for _, end in container.comments] + [member.end for member in container.members]
    return max([container.start + 1, *ends, *(comma + 1 for comma in container.commas)]), container.end - 1


def _is_after_line_comment(text: str, container: Node, at: int) -> bool:
    return any(end == at and text.startswith("//", start) for start, end in container.comments)


def _has_break(text: str) -> bool:
    return _BREAK.search(text) is not None


def _get_indent(text: str, position: int) -> str:
    start = max(text.rfind("\n", 0, position), text.rfind("\r", 0, position)) + 1
    line = text[start:position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _detect_layout(text: str, root: Node | None, container: Node) -> _Layout:
    """Return the layout of the members of a container, or the layout for its first member."""
    unit = _detect_unit(text, root, container)
    colon = _detect_colon(text, root, container)
    indents = _list_indents(text, container)
    is_minified = root is not None and bool(root.members) and not _has_break(text[root.start : root.end])
    indent = indents[-1] if indents else None
    if not container.members and not is_minified:
        indent = _get_indent(text, container.start) + unit
    comma = _detect_comma(text, root, container, ", " if colon.endswith(" ") else ",")
    return _Layout(indent=indent, unit=unit, newline=detect_newline(text), comma=comma, colon=colon)


def _list_indents(text: str, container: Node) -> Sequence[str]:
    """Return the indentation of each member that begins its line. Only 1,000 characters before it are searched."""
    indents = []
    for member in container.members:
        indent = re.search(r"[\r\n]([ \t]*)\Z", text[max(member.start - 1000, 0) : member.start])
        if indent is not None:
            indents.append(indent.group(1))
    return indents


def _detect_unit(text: str, root: Node | None, container: Node) -> str:
    for node in (container, root):
        indents = _list_indents(text, node) if node is not None else []
        if indents and node is not None:
            outer = _get_indent(text, node.start)
            if indents[-1].startswith(outer) and len(indents[-1]) > len(outer):
                return indents[-1][len(outer) :]
    return INDENT


def _detect_colon(text: str, root: Node | None, container: Node) -> str:
    neighbours = [*container.members, *(root.members if root else ())]
    colons = (text[member.key_end : member.value.start] for member in neighbours)
    return next((colon for colon in colons if re.fullmatch(r" ?: ?", colon)), ": ")


def _detect_comma(text: str, root: Node | None, container: Node, default: str) -> str:
    for node in (container, root):
        if node is None:
            continue
        for comma in node.commas:
            space = re.compile(r"[ \t\r\n]*").match(text, comma + 1)
            if space and not _has_break(space.group()):
                return ", " if space.group()[:1] == " " else ","
    return default
