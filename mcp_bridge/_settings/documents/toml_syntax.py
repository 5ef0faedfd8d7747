"""TOML texts: the positions of tables and keys, and edits of an entry, which is a table.

`tomllib` decides what is valid, but keeps no positions. So a tokenizer splits the text into statements, each of which
is a header such as `[servers.docs]` or a key with its value, and `_build_tree` follows them. Values inside an inline
table or an array have the position of their statement. A new table is added at the end of the text.
"""

from __future__ import annotations

import functools
import json
import operator
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._settings.documents.positions import MAX_DEPTH, TOO_DEEP, KeyPath
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

# The alternatives, in this order: multi-line strings in double and in single quotes, strings in one line, comments,
# signs and line ends, other words such as bare keys and numbers, and a quote that does not begin a string.
# A multi-line string that does not end extends to the end of the text, because another search for its end at each of
# its quotes would take quadratic time.
_TOKEN = re.compile(
    r'"""(?:[^\\]|\\.)*?(?:"{3,5}|\\?\Z)'
    r"|\'\'\'.*?(?:'{3,5}|\Z)"
    r"""|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'"""
    r"""|\#[^\n]*|[\[\]{}=.,\n]|[^\s\[\]{}=.,#"']+|["']""",
    re.DOTALL,
)
_AT_LINE = re.compile(r" \(at line (\d+), column \d+\)$")
_LINE_END = re.compile(r"\r?\n")
_EMPTY_LINE = re.compile(r"(?<=\n)[ \t]*\r?\n\Z")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Statement:
    """A header, or a key with its value: its tokens without comments, and where it begins and ends."""

    tokens: Sequence[str]
    start: int
    end: int


class TomlText:
    """A TOML text. Raises ConfigError for an invalid one, with the line if it is known."""

    # Edits replace whole lines, so they move no comments.
    comments: Sequence[tuple[int, int]] = ()

    def __init__(self, text: str) -> None:
        self.text = text
        # This rejects keys of many parts, so it is first: tomllib takes hours for a key of a million parts.
        statements = [*_split_statements(text)]
        self.data: Any = _load_toml(text)
        self.root: Node | None = _build_tree(statements, self.data)

    def check_container(self, node: Node, kind: Kind, where: str) -> None:
        if kind == "list":
            raise make_unsafe_error("TOML has no form for a list of servers that is supported", where=where)
        if node.kind != "mapping":
            raise make_unsafe_error("not a table", line=get_line_number(self.text, node.start), where=where)

    def insert(self, path: EntryPath, target: EditTarget, value: dict[str, Any]) -> str:
        """Add the table at the end of the text, after an empty line."""
        text = self.text
        newline = detect_newline(text)
        ends_line = not text or text.endswith("\n")
        has_empty_line = re.search(r"\n[ \t]*\r?\n\Z", text) is not None
        gap = "" if ends_line else newline
        if text.strip() and not has_empty_line:
            gap += newline
        block = format_table((*target.within, target.name), value, newline)
        new_text = f"{text}{gap}{block}"
        # A text whose last line has no end keeps this style.
        if ends_line:
            new_text += newline
        return new_text

    def replace(self, entry: Member, target: EditTarget, value: dict[str, Any]) -> str:
        """Write the new table at the place of the first old one."""
        (start, end), *further_tables = self._get_tables(entry, target.where)
        block = format_table((*target.within, target.name), value, detect_newline(self.text))
        return splice(self.text, [(start, end, block), *map(self._remove_lines, further_tables)])

    def remove(self, path: EntryPath) -> str:
        """Remove the entry's tables, and the empty line before them."""
        if path.entry is None:
            return self.text
        (start, end), *further_tables = self._get_tables(path.entry, str(path.entry.key))
        text = splice(self.text, map(self._remove_lines, further_tables))
        empty_line = _EMPTY_LINE.search(text[:start])
        if empty_line:
            start = empty_line.start()
        after = _LINE_END.match(text, end)
        head = text[:start]
        tail = text[after.end() if after else end :]
        if head and tail and not head.endswith("\n"):
            # The removed line end before the table is kept, so that the text that follows still begins a line.
            line_end = _LINE_END.match(text, start)
            if line_end is not None:
                head = text[: line_end.end()]
        return head + tail

    def _get_tables(self, entry: Member, where: str) -> Sequence[tuple[int, int]]:
        """Return the tables of an entry, such as `[servers.docs]` and `[servers.docs.env]`, with whole lines."""
        if not entry.value.tables:
            problem = "the entry is not a table of its own"
            raise make_unsafe_error(problem, line=get_line_number(self.text, entry.start), where=where)
        return [(start, self._find_line_end(end)) for start, end in entry.value.tables]

    def _find_line_end(self, position: int) -> int:
        stop = self.text.find("\n", position)
        stop = len(self.text) if stop < 0 else stop
        return stop - 1 if self.text[position:stop].endswith("\r") else stop

    def _remove_lines(self, table: tuple[int, int]) -> Piece:
        start, end = table
        line_end = _LINE_END.match(self.text, end)
        return start, line_end.end() if line_end else end, ""


def list_comments(text: str) -> Sequence[str]:
    """Return the comments of a valid text. Strings have none."""
    return [match.group() for match in _TOKEN.finditer(text) if match.group().startswith("#")]


def _load_toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = _AT_LINE.search(str(error))
        line = int(at[1]) if at else text.count("\n") + 1
        hint = "TOML keys are 'name = value', text is in quotes, and a key occurs once."
        raise ConfigError(f"not valid TOML: {_AT_LINE.sub('', str(error))}", line=line, hint=hint) from None
    except RecursionError:
        raise ConfigError(TOO_DEEP, hint="Flatten it.") from None
    except (ValueError, ArithmeticError):
        # Python refuses to read whole numbers beyond some thousand digits, and dates that the calendar does not have.
        problem = "not valid TOML: a date that does not exist, or a number of too many digits"
        raise ConfigError(problem, hint="Write it in quotes.") from None


def _split_statements(text: str) -> Iterator[_Statement]:
    """Yield the headers and keys of a text. Raises ConfigError for a key with too many parts."""
    start = end = depth = dots = 0
    tokens: list[str] = []
    for match in _TOKEN.finditer(text + "\n"):
        piece = match.group()
        if piece == ".":
            dots += 1
        elif piece in {"[", "]", "{", "}", "=", ",", "\n"}:
            dots = 0
        if dots > MAX_DEPTH:
            raise ConfigError(TOO_DEEP, line=get_line_number(text, match.start()), hint="Flatten it.")
        if piece == "\n" and depth == 0 and tokens:
            yield _Statement(tokens=tokens, start=start, end=end)
            tokens = []
        elif piece != "\n" and not piece.startswith("#"):
            if not tokens:
                start = match.start()
            end = match.end()
            tokens.append(piece)
            if piece in {"[", "{"}:
                depth += 1
            elif piece in {"]", "}"}:
                depth -= 1


def _build_tree(statements: Sequence[_Statement], data: dict[str, Any]) -> Node:
    """Build the tree of a valid text.

    A header opens a table, and the keys after it belong to this table. `nodes` has the node of each key path. The table
    and all its ancestors remember the position of the header and of the last key (`Node.tables`), because an edit of an
    entry replaces all its tables.
    """
    root = Node(kind="mapping", start=0, end=0)
    nodes: dict[KeyPath, Node] = {(): root}

    def add_node(place: KeyPath, node: Node, statement: _Statement) -> Node:
        key = place[-1] if isinstance(place[-1], str) else None
        member = Member(key=key, start=statement.start, key_end=statement.start, value=node)
        nodes[place[:-1]].members.append(member)
        return nodes.setdefault(place, node)

    def enter(place: KeyPath, key: str, statement: _Statement) -> KeyPath:
        """Return the key path of a table, which is added if it is new, or of the last item of an array of tables."""
        inner = (*place, key)
        node = nodes.get(inner) or add_node(inner, _to_node({}, statement), statement)
        return (*inner, len(node.members) - 1) if node.kind == "list" else inner

    table: KeyPath = ()
    ancestors: list[Node] = []
    for statement in statements:
        tokens = statement.tokens
        if tokens[0] == "[":
            keys = [_decode_key(piece) for piece in tokens if piece not in {"[", "]", "."}]
            table = ()
            if tokens[1] == "[":
                for key in keys[:-1]:
                    table = enter(table, key, statement)
                table = (*table, keys[-1])
                node = nodes.get(table) or add_node(table, _to_node([], statement), statement)
                table = (*table, len(node.members))
                add_node(table, _to_node({}, statement), statement)
            else:
                for key in keys:
                    table = enter(table, key, statement)
            ancestors = [nodes[table[:end]] for end in range(1, len(table) + 1)]
            for node in ancestors:
                node.tables = node.tables or []
                node.tables.append((statement.start, statement.end))
        else:
            keys = [_decode_key(piece) for piece in tokens[: tokens.index("=")] if piece != "."]
            place = table
            for key in keys[:-1]:
                place = enter(place, key, statement)
            place = (*place, keys[-1])
            value = functools.reduce(operator.getitem, place, data)  # type: ignore[arg-type]
            add_node(place, _to_node(value, statement), statement)
            for node in ancestors:
                if node.tables:
                    node.tables[-1] = (node.tables[-1][0], statement.end)
    return root


def _to_node(data: Any, statement: _Statement, depth: int = 0) -> Node:
    """Make the node of a value in one statement. The node of an array has no members."""
    if depth > MAX_DEPTH:
        raise ConfigError(TOO_DEEP, hint="Flatten it.")
    node = Node(kind="scalar", start=statement.start, end=statement.end)
    if isinstance(data, list):
        node.kind = "list"
    elif isinstance(data, dict):
        node.kind = "mapping"
        for key, item in data.items():
            value = _to_node(item, statement, depth + 1)
            node.members.append(Member(key=key, start=node.start, key_end=node.start, value=value))
    return node


def _decode_key(piece: str) -> str:
    return str(tomllib.loads(f"key = {piece}")["key"]) if piece[0] in "\"'" else piece


def format_table(path: Sequence[str], value: Mapping[str, Any], newline: str = "\n") -> str:
    """Format a table, each of its values in one line, without the last line end. Raises UnsafeEdit for null."""
    try:
        lines = [f"{_format_key(key)} = {_format_value(inner)}" for key, inner in value.items()]
    except TypeError:
        raise make_unsafe_error("the entry has a null in it, which TOML does not have", where=".".join(path)) from None
    return newline.join([f"[{'.'.join(map(_format_key, path))}]", *lines])


def _format_key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _format_value(key)


def _format_value(value: Any) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{_format_key(key)} = {_format_value(value)}" for key, value in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_format_value, value))}]"
    if value is None:
        raise TypeError
    # Strings of JSON are strings of TOML, except that TOML requires an escape for DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
