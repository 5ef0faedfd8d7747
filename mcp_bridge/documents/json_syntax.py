"""JSON, and JSON with comments, as a tree whose parts know their bytes.

JSON with comments is a subset of JavaScript, whose grammar gives the positions. It decides nothing: with comments and
trailing commas blanked out, the text has to be JSON for Python's strict parser.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from mcp_bridge.documents.edit import unsafe

if TYPE_CHECKING:
    from tree_sitter import Node

Span = tuple[int, int]
"""Where something begins, and where it has ended, in bytes."""

_TRAILING = re.compile(rb",(?=[ \t\r\n]*[}\]])")
_NOT_A_BREAK = re.compile(rb"[^\r\n]")
_HINT = "Mend the file in an editor, then run the command again."


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of an object, its key included, or an item of a list."""

    key: str | None
    start: int
    end: int
    colon: str
    """What stands between the key and the value."""
    value: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A value, seen as far as it is asked for."""

    node: Node
    source: Source

    @property
    def span(self) -> Span:
        """Where it stands in the text."""
        return self.node.start_byte - 1, self.node.end_byte - 1

    @property
    def kind(self) -> str:
        """What it is in JavaScript's grammar: object, array, string, number ..."""
        return self.node.type

    @property
    def commas(self) -> Sequence[int]:
        """Where its own commas are."""
        return [child.start_byte - 1 for child in self.node.children if child.type == ","]

    @property
    def comments(self) -> Sequence[Span]:
        """The comments between its members."""
        return [(child.start_byte - 1, child.end_byte - 1) for child in self.node.children if child.type == "comment"]

    @property
    def members(self) -> Sequence[Member]:
        """Its members, none where it is neither object nor list."""
        if self.kind not in {"object", "array"}:
            return []
        return [self._member(child) for child in self.node.named_children if child.type != "comment"]

    @property
    def plain(self) -> Any:
        """Its data."""
        return json.loads(self.source.bare[slice(*self.span)])

    def _member(self, node: Node) -> Member:
        start, end = node.start_byte - 1, node.end_byte - 1
        key, value = node.child_by_field_name("key"), node.child_by_field_name("value")
        if self.kind == "array" or key is None or value is None:
            item = Value(node=node, source=self.source)
            return Member(key=None, start=start, end=end, colon="", value=item)
        data = self.source.data
        name: str = json.loads(data[key.start_byte - 1 : key.end_byte - 1])
        colon = data[key.end_byte - 1 : value.start_byte - 1].decode()
        return Member(key=name, start=start, end=end, colon=colon, value=Value(node=value, source=self.source))


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A text that has been found right: `bare` is `data` with spaces for comments and trailing commas."""

    data: bytes
    bare: bytes
    node: Node | None
    comments: Sequence[Span]

    @property
    def root(self) -> Value | None:
        """The only value, None in a text of nothing but comments and white space."""
        return None if self.node is None else Value(node=self.node, source=self)


def plain(text: str, format: str) -> Any:
    """The data of a text, None where there is none. Raises Unsafe with the line."""
    if format == "json" and text.strip(" \t\r\n"):
        return _strict(text, text, format)
    source = parse(text, format)
    return None if source.root is None else source.root.plain


def parse(text: str, format: str) -> Source:
    """The tree of a text. Raises Unsafe with the line where it is not what its format says."""
    data = text.encode()
    bare, comments, top = _bared(data) if format == "jsonc" else (data, [], None)
    if not bare.strip(b" \t\r\n"):
        return Source(data=data, bare=bare, node=None, comments=comments)
    _strict(bare.decode(), text, format)
    top = top or _tree(data)
    values = [] if top is None else [child for child in top.named_children if child.type != "comment"]
    if len(values) != 1:
        raise unsafe("something that JSON's and JavaScript's grammars read differently")
    return Source(data=data, bare=bare, node=values[0], comments=comments)


def _tree(data: bytes) -> Node | None:
    """The text as the inside of JavaScript's brackets: the array node; None where it is something else."""
    import tree_sitter
    import tree_sitter_javascript

    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_javascript.language()))
    program = parser.parse(b"[" + data + b"\n]").root_node
    if program.has_error or program.named_child_count != 1:
        return None
    statement = program.named_children[0]
    return next((child for child in statement.children if child.type == "array"), None)


def _bared(data: bytes) -> tuple[bytes, Sequence[Span], Node | None]:
    """The text without comments and trailing commas (as long as before), and where the comments are."""
    top = _tree(data)
    if top is None:
        return data, [], None
    comments = _comments(top)
    bare = bytearray(data)
    for start, end in comments:
        bare[start:end] = _NOT_A_BREAK.sub(b" ", data[start:end])
    seen = bytes(bare)
    for comma in _TRAILING.finditer(seen):
        node = top.descendant_for_byte_range(comma.start() + 1, comma.start() + 2)
        before = seen[: comma.start()].rstrip(b" \t\r\n")[-1:]
        if node is not None and node.type == "," and before not in {b"", b",", b"[", b"{"}:
            bare[comma.start()] = 0x20
    return bytes(bare), comments, top


def _comments(top: Node) -> Sequence[Span]:
    import tree_sitter
    import tree_sitter_javascript

    query = tree_sitter.Query(tree_sitter.Language(tree_sitter_javascript.language()), "(comment) @comment")
    found = tree_sitter.QueryCursor(query).captures(top).get("comment", [])
    return sorted((node.start_byte - 1, node.end_byte - 1) for node in found)


def _strict(bare: str, text: str, format: str) -> Any:
    try:
        return json.loads(bare, parse_constant=_constant)
    except json.JSONDecodeError as error:
        problem, line = f"not valid JSON: {error.msg}", error.lineno
    except RecursionError:
        problem, line = "nested too deeply", None
    except ValueError:
        problem, line = "a number that JSON does not have, or one of too many digits", None
    if format == "json" and _has_comments(text):
        raise unsafe("comments or trailing commas, which this client does not read", line=line, hint=_HINT)
    raise unsafe(problem, line=line, hint=_HINT)


def _has_comments(text: str) -> bool:
    data = text.encode()
    bare, _, _ = _bared(data)
    try:
        return bare != data and json.loads(bare, parse_constant=_constant) is not ...
    except (ValueError, RecursionError):
        return False


def _constant(name: str) -> NoReturn:
    raise ValueError(name)
