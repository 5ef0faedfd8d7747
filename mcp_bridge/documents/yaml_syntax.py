"""YAML 1.2 in block style: where its values are, and how an entry is written on lines of its own.

The tree is built from parser events, so nothing is constructed that the settings do not know: no objects, no tags
but `!!str`, `!!map` and `!!seq`. The core schema of YAML 1.2 (section 10.3) decides what plain text means: `no` and
`on` are text, `010` is ten, a date is text. Merge keys (`<<`) work; explicit keys win.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
)
from ruamel.yaml.reader import ReaderError

from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.documents.edit import Edit, EditTarget, Undo, newline_of, unsafe
from mcp_bridge.documents.positions import MAX_DEPTH, TOO_DEEP
from mcp_bridge.documents.syntax import EntryPath, Kind, Member, Node, line_at, line_start
from mcp_bridge.documents.value_text import kind as kind_of
from mcp_bridge.documents.value_text import shortened

MAX_COPIED = 100_000
"""How much aliases may add to a document, in values and in pieces of 64 characters."""
STEP = 2

_CORE = "tag:yaml.org,2002:"
_UNFINISHED = object()
_WORDS: dict[str, bool | None] = dict.fromkeys(("", "~", "null", "Null", "NULL")) | {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_WHOLE = re.compile(r"(?P<ten>[-+]?[0-9]+)|0o(?P<eight>[0-7]+)|0x(?P<sixteen>[0-9a-fA-F]+)")
_NUMBER = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_MAX_DIGITS = 400

_SPACE = r"(?:[ \t\r\n]|#[^\r\n]*)*"
_AFTER_KEY = re.compile(_SPACE + ":")
_AFTER_DASH = re.compile(_SPACE + "-")
_DIRECTIVE = re.compile(_SPACE + "%")
_ODD_BREAK = re.compile("[\x85\u2028\u2029\ufeff]")
_LINE = re.compile(r"[^\n]*(?:\n|\Z)")
_LINE_END = re.compile(r"\r?\n")
_NOTHING = re.compile(r":([ \t]*(?:\{[ \t]*\}|\[[ \t]*\]|null|Null|NULL|~)?)")
_BARE_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_NOT_TEXT = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
"""Words that YAML 1.1 takes for something else than text."""
_NOT_PRINTABLE = re.compile("[^\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]|[\u2028\u2029]")


class YamlText:
    """A YAML text with at most one document. Raises ConfigError, with the line, for one that is invalid.

    The settings are `strict`: a key is text and occurs once, and a value has no tag of its own.
    """

    comments: Sequence[tuple[int, int]] = ()  # edits replace whole lines

    def __init__(self, text: str, *, strict: bool = False) -> None:
        self.text = text
        self.root = _build_tree(text)
        self.data: Any = None if self.root is None else _Reader(text, strict=strict).read(self.root)[0]

    def check_container(self, node: Node, kind: Kind, where: str) -> None:
        """Raise for what is not in block style or has more meaning than its lines; empty containers pass."""
        line = line_at(self.text, node.start)
        if _is_null(node) and not node.is_marked and (node is not self.root or not node.text):
            return
        is_empty = _is_null(node) or (not node.members and node.is_flow)
        if is_empty and (node.kind != kind or node.is_marked):
            problem = "an anchor, an alias or a tag" if node.is_marked else "not an empty container of the right kind"
            raise unsafe(problem, line=line, where=where)
        if node.is_marked or any(member.key == "<<" for member in node.members):
            raise unsafe("an anchor, an alias or a tag", line=line, where=where)
        if node.kind != kind:
            raise unsafe(f"not a {kind}", line=line, where=where)
        if node.is_flow and not is_empty:
            raise unsafe("written in brackets, not in lines", line=line, where=where)

    def has_comment(self, start: int, end: int) -> bool:
        """Whether there is a comment between these positions."""
        return "#" in self.text[start:end]

    def insert(self, found: EntryPath, target: EditTarget, value: dict[str, Any]) -> Edit:
        """Write the entry, and the containers that it lacks, on lines after the last entry."""
        text, newline = self.text, newline_of(self.text)
        key, inner, created = target.nest(value, len(found.members))
        payload = [inner] if key is None else {key: inner}
        undo: dict[str, Any] = {"created": created}
        container = found.containers[-1] if found.containers else None
        if container is None or (container is self.root and _is_null(container)):
            return Edit(text=_add_lines(text, len(text), _format_block(payload, 0, newline, STEP), newline), undo=undo)
        if container.members:
            column = self._column_of(container)
            at = _end_of_entries(text, container.end, column)
        elif not found.members:
            undo["root"] = text[container.start : container.end]
            block = _format_block(payload, 0, newline, STEP)
            return Edit(text=text[: container.start] + block + text[container.end :], undo=undo)
        else:
            text, undo["held"], at, column = self._open_container(found.members[-1])
        block = _format_block(payload, column, newline, self._step())
        return Edit(text=_add_lines(text, at, block, newline), undo=undo)

    def replace(self, entry: Member, target: EditTarget, value: dict[str, Any]) -> str:
        """Write the value on the lines of the old one."""
        start, end = self._lines_of(entry)
        newline = newline_of(self.text)
        if target.listed:
            column = len(self.text[start : entry.start].split("-", maxsplit=1)[0])
            block = _format_block([value], column, newline, STEP)
        else:
            block = _format_block({target.name: value}, entry.start - start, newline, self._step_in(entry))
        return self.text[:start] + block + self.text[end:]

    def remove(self, found: EntryPath, depth: int, undo: Undo) -> str:
        """Remove a member's lines; a container that they leave empty gets what it held before."""
        text = self.text
        member = found.members[max(depth, 0)] if depth < len(found.members) else found.entry
        if member is None:
            return text
        start, end = self._lines_of(member)
        if depth < 0:
            return text[:start] + str(undo["root"]) + text[end:]
        removed = _cut_lines(text, start, end)
        if depth and len(found.containers[depth].members) == 1:
            held = undo.get("held", " []" if found.containers[depth].kind == "list" else " {}")
            colon = text.index(":", found.members[depth - 1].key_end) + 1
            return f"{removed[:colon]}{held}{removed[colon:]}"
        return removed

    def _open_container(self, member: Member) -> tuple[str, str, int, int]:
        """The text without an empty container's brackets, the brackets, and the position and column of its entries."""
        text = self.text
        held = _NOTHING.fullmatch(text, member.key_end, member.end)
        if held is None:
            problem = "an empty container in a form that is not known"
            raise unsafe(problem, line=line_at(text, member.start))
        if text[line_start(text, member.start) : member.start].strip(" "):
            raise unsafe("a key that does not begin its line", line=line_at(text, member.start))
        opened = text[: held.start(1)] + text[held.end(1) :]
        column = member.start - line_start(text, member.start) + self._step()
        return opened, held.group(1), _end_of_entries(opened, held.start(1), column), column

    def _lines_of(self, member: Member) -> tuple[int, int]:
        """The lines of a member, without the last line end."""
        text, first = self.text, line_start(self.text, member.start)
        if re.fullmatch(r" *(?:- +)?", text[first : member.start]) is None:
            raise unsafe("an entry that does not begin its line", line=line_at(text, member.start))
        last = text.find("\n", member.end)
        stop = len(text) if last < 0 else last
        return first, stop - 1 if text[stop - 1 : stop] == "\r" and stop > member.end else stop

    def _column_of(self, container: Node) -> int:
        """How deep the entries of a container are indented."""
        first = container.members[0].start
        before = self.text[line_start(self.text, first) : first]
        if container.kind == "mapping" and not before.strip(" "):
            return len(before)
        if container.kind == "list" and re.fullmatch(r" *- +", before):
            return before.index("-")
        raise unsafe("entries that do not begin their lines", line=line_at(self.text, first))

    def _step(self) -> int:
        """How much deeper than the root the first mapping inside it is."""
        for member in self.root.members if self.root and self.root.kind == "mapping" else ():
            value = member.value
            if value.kind == "mapping" and not value.is_flow and value.members:
                column = value.members[0].start - line_start(self.text, value.members[0].start)
                if 0 < column <= 8:
                    return column
        return STEP

    def _step_in(self, entry: Member) -> int:
        """How much deeper than its name an entry's values are."""
        value = entry.value
        inner = value.members[0].start if value.members and not value.is_flow else entry.start
        outer = entry.start - line_start(self.text, entry.start)
        return max(inner - line_start(self.text, inner) - outer, 0) or STEP


def check_editable(text: str) -> None:
    """Raise Unsafe where readers of YAML disagree about lines, or a directive changes what follows."""
    if found := _ODD_BREAK.search(text):
        raise unsafe("a character that some readers of YAML take for a line end", line=line_at(text, found.start()))
    if _DIRECTIVE.match(text):
        raise unsafe("a directive (a line that begins with %)")


def _build_tree(text: str) -> Node | None:
    """The tree of the only document, None where there is none."""
    stack: list[Node] = []
    keys: list[Node | None] = []  # for each open mapping, the key whose value comes next
    root: Node | None = None
    for event in _parse_events(text):
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, DocumentStartEvent) and root is not None:
            raise ConfigError("a second document", line=line, hint="Keep one, and no '---' between its parts.")
        if isinstance(event, CollectionEndEvent):
            node = stack.pop()
            keys.pop()
            last = node.members[-1].end if node.members else node.end
            node.end = event.end_mark.index if node.is_flow else last
        elif isinstance(event, NodeEvent):
            node = _to_node(event, text)
            if not stack:
                root = node
            elif stack[-1].kind == "mapping" and keys[-1] is None:
                _place_missing(node, stack[-1], None, text)
                keys[-1] = node
            else:
                _place_missing(node, stack[-1], keys[-1], text)
                stack[-1].members.append(_to_member(keys[-1], node))
                keys[-1] = None
            if isinstance(event, CollectionStartEvent):
                stack.append(node)
                keys.append(None)
            if len(stack) > MAX_DEPTH:
                raise ConfigError(TOO_DEEP, line=line, hint="Flatten it.")
    return root


def _parse_events(text: str) -> Iterator[Event]:
    hint = "Check the indentation, quotes and brackets there and in the line before."
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an anchor that is defined twice is valid
            yield from YAML(typ="safe", pure=True).parse(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = f"not valid YAML: {error.problem or error.context}"
        raise ConfigError(problem, line=mark.line + 1 if mark else None, hint=hint) from None
    except ReaderError as error:
        line = line_at(text, error.position)
        raise ConfigError("not valid YAML: a control character", line=line, hint="Remove it.") from None
    except (YAMLError, ValueError, LookupError, ArithmeticError, AttributeError, TypeError, AssertionError) as error:
        # ruamel.yaml has no error of its own for some texts (an escape beyond Unicode, an odd directive).
        raise ConfigError(f"not valid YAML ({type(error).__name__})", hint=hint) from None


def _to_node(event: NodeEvent, text: str) -> Node:
    node = Node(kind="scalar", start=event.start_mark.index, end=event.end_mark.index, anchor=event.anchor)
    if isinstance(event, AliasEvent):
        node.kind, node.text, node.anchor = "alias", str(event.anchor), None
        return node
    assert isinstance(event, ScalarEvent | CollectionStartEvent)
    node.tag = None if event.tag is None else str(event.tag)
    if isinstance(event, CollectionStartEvent):
        node.kind = "mapping" if isinstance(event, MappingStartEvent) else "list"
        node.is_flow = bool(event.flow_style)
        return node
    node.text, node.is_plain = event.value, event.style is None
    if event.style in {"|", ">"}:  # the parser includes the line ends after the text
        body = text[node.start : node.end]
        keeps_breaks = "+" in body.split("\n", 1)[0].split("#")[0]
        body = body.removesuffix("\n").removesuffix("\r") if keeps_breaks else body.rstrip(" \t\r\n")
        node.end = node.start + len(body)
    return node


def _place_missing(node: Node, parent: Node, key: Node | None, text: str) -> None:
    """Give a value that is not written its position: after its colon or dash, not where the parser noticed."""
    if node.start == node.end and node.is_plain and not parent.is_flow:
        before = key.end if key else parent.members[-1].end if parent.members else parent.start
        sign = (_AFTER_KEY if parent.kind == "mapping" else _AFTER_DASH).match(text, before)
        node.start = node.end = sign.end() if sign else before


def _to_member(key: Node | None, value: Node) -> Member:
    if key is None:
        return Member(key=None, start=value.start, key_end=value.start, value=value, is_marked=value.is_marked)
    is_marked = key.is_marked or value.is_marked
    return Member(key=key.text, start=key.start, key_end=key.end, value=value, is_marked=is_marked, key_node=key)


def _is_null(node: Node) -> bool:
    """Whether a value is not written, or written as null."""
    return node.kind == "scalar" and node.is_plain and node.text in _WORDS and _WORDS[node.text] is None


class _Reader:
    """Turns nodes into plain data. Aliases are followed, with a limit on what they add."""

    def __init__(self, text: str, *, strict: bool) -> None:
        self._text = text
        self._strict = strict
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._copied = 0

    def read(self, node: Node) -> tuple[Any, int]:
        """The data of a node, and its weight: its values and pieces of text."""
        if node.kind == "alias":
            return self._follow(node)
        self._check_tag(node)
        if node.anchor:
            self._anchors[node.anchor] = (_UNFINISHED, 0)
        weight = 1 + len(node.text) // 64
        data: Any
        if node.kind == "mapping":
            data, inner = self._read_mapping(node)
            weight += inner
        elif node.kind == "list":
            items = [self.read(member.value) for member in node.members]
            data, weight = [item for item, _ in items], weight + sum(inner for _, inner in items)
        else:
            data = self._read_plain(node) if node.is_plain and node.tag is None else node.text
        if node.anchor:
            self._anchors[node.anchor] = (data, weight)
        return data, weight

    def _read_mapping(self, node: Node) -> tuple[dict[str, Any], int]:
        data: dict[str, Any] = {}
        merged: list[dict[str, Any]] = []
        total = 0
        for member in node.members:
            is_merge = member.key == "<<" and member.key_node is not None and member.key_node.is_plain
            if member.key_node is not None:
                member.key, weight = self._read_key(member.key_node)
                total += weight
            value, weight = self.read(member.value)
            total += weight
            several = value if isinstance(value, list) else [value]
            if is_merge and all(isinstance(one, dict) for one in several):
                merged += several
            elif is_merge and self._strict:
                problem = f"'<<' merges mappings, found {kind_of(value)}"
                self._fail(member.value, problem, "Give it an alias of a mapping.")
            else:
                data[str(member.key)] = value
        for other in merged:
            data.update({key: value for key, value in other.items() if key not in data})
        return data, total

    def _read_key(self, node: Node) -> tuple[str, int]:
        key, weight = self.read(node)
        if isinstance(key, str):
            return key, weight
        if self._strict and node.kind in {"mapping", "list"}:
            self._fail(node, "a key that is a list or a mapping", "Keys are text.")
        if self._strict:
            self._fail(node, f"a key that is {kind_of(key)}, not text", "Write it in quotes.")
        return node.text or str(key), weight

    def _follow(self, node: Node) -> tuple[Any, int]:
        value, weight = self._anchors.get(node.text, (None, 0))
        if not weight:
            problem = "that contains itself" if value is _UNFINISHED else "that is not defined before it"
            self._fail(node, f"'*{node.text}' is an anchor {problem}", "Write the value out.")
        self._copied += weight
        if self._copied > MAX_COPIED:
            self._fail(node, "aliases that multiply to an enormous document", "Write the values out.")
        return value, weight

    def _read_plain(self, node: Node) -> Any:
        """What text without quotes means in the core schema."""
        text = node.text
        if text in _WORDS:
            return _WORDS[text]
        if whole := _WHOLE.fullmatch(text):
            if len(text) > _MAX_DIGITS:
                self._fail(node, "a number of too many digits", "Write it in quotes.")
            base = {"ten": 10, "eight": 8, "sixteen": 16}[str(whole.lastgroup)]
            return int(whole[str(whole.lastgroup)], base)
        if _NUMBER.fullmatch(text):
            return float(text)
        return float(text.lower().replace(".", "", 1)) if _SPECIAL.fullmatch(text) else text

    def _check_tag(self, node: Node) -> None:
        allowed = {"mapping": "map", "list": "seq", "scalar": "str"}[node.kind]
        if self._strict and node.tag not in (None, "!", _CORE + allowed):
            name = str(node.tag).replace(_CORE, "!!")
            self._fail(node, f"the tag {shortened(name)} is not allowed here", "Remove the tag.")

    def _fail(self, node: Node, problem: str, hint: str) -> NoReturn:
        raise ConfigError(problem, line=line_at(self._text, node.start), hint=hint)


def _format_block(payload: Any, column: int, newline: str, step: int) -> str:
    """The payload in block style, without the last line end."""
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
    """A value in one line; text is always in double quotes, so that no reader takes it for something else."""
    text = json.dumps(value, ensure_ascii=False)
    return _NOT_PRINTABLE.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def _add_lines(text: str, at: int, written: str, newline: str) -> str:
    """The text with lines after the one that ends at this position."""
    if at < len(text):
        return f"{text[:at]}{written}{newline}{text[at:]}"
    if not text or text.endswith("\n"):
        return f"{text}{written}{newline}"
    return f"{text}{newline}{written}"


def _cut_lines(text: str, start: int, end: int) -> str:
    """The text without these lines: with the line end after them or, at the end of a text without one, before."""
    if line_end := _LINE_END.match(text, end):
        return text[:start] + text[line_end.end() :]
    return text[: start - 1].removesuffix("\r") if start else ""


def _end_of_entries(text: str, at: int, column: int) -> int:
    """The start of the next line, after the comments below this one that are indented as entries are."""
    found = _LINE.match(text, at)
    end = len(text) if found is None else found.end()
    comment = re.compile(rf" {{{column},}}#[^\n]*(?:\n|\Z)")
    while end < len(text) and text[end - 1] == "\n" and (more := comment.match(text, end)):
        end = more.end()
    return end
