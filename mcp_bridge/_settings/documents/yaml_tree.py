"""Reads YAML 1.2 as a tree with positions, and as plain data.

The tree is built from the events of the parser, so no objects of other types are constructed, and only the tags
`!!str`, `!!map` and `!!seq` are accepted. The core schema of YAML 1.2 (section 10.3) decides what plain text means:
`no` and `on` are text, `010` is ten, a date is text. Merge keys (`<<`) work; explicit keys take precedence.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
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

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._settings.documents.positions import MAX_DEPTH, TOO_DEEP
from mcp_bridge._settings.documents.syntax import Member, Node, get_line_number
from mcp_bridge._settings.documents.value_text import describe_kind, quote_text

MAX_COPIED = 100_000
"""How much data aliases may add to a document: the number of values, and of pieces of 64 characters in texts. Aliases
of aliases could otherwise multiply a small document to any size."""

_CORE = "tag:yaml.org,2002:"
_UNFINISHED = object()
"""The value of an anchor while the value that it marks is being read."""
_WORDS: dict[str, bool | None] = {
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "NULL": None,
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
_WHOLE = re.compile(r"(?P<ten>[-+]?[0-9]+)|0o(?P<eight>[0-7]+)|0x(?P<sixteen>[0-9a-fA-F]+)")
_NUMBER = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_MAX_DIGITS = 400
"""The maximum length of a whole number. Python converts longer texts slowly, or not at all."""

_SPACE = r"(?:[ \t\r\n]|#[^\r\n]*)*"
_AFTER_KEY = re.compile(_SPACE + ":")
_AFTER_DASH = re.compile(_SPACE + "-")


def build_tree(text: str) -> Node | None:
    """Build the tree of the only document; None if there is none."""
    stack: list[Node] = []
    # For each open mapping, this is the key of the next value.
    keys: list[Node | None] = []
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
                _set_missing_position(node, stack[-1], None, text)
                keys[-1] = node
            else:
                _set_missing_position(node, stack[-1], keys[-1], text)
                key = keys[-1]
                is_marked = node.is_marked or (key is not None and key.is_marked)
                member = Member(key=None, start=node.start, key_end=node.start, value=node, is_marked=is_marked)
                if key is not None:
                    member.key = key.text
                    member.start = key.start
                    member.key_end = key.end
                    member.key_node = key
                stack[-1].members.append(member)
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
            # The parser warns of an anchor that is defined twice, which is valid.
            warnings.simplefilter("ignore")
            yield from YAML(typ="safe", pure=True).parse(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = f"not valid YAML: {error.problem or error.context}"
        raise ConfigError(problem, line=mark.line + 1 if mark else None, hint=hint) from None
    except ReaderError as error:
        line = get_line_number(text, error.position)
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
    if event.style in {"|", ">"}:
        # The parser includes the line ends after the text.
        body = text[node.start : node.end]
        keeps_breaks = "+" in body.split("\n", 1)[0].split("#")[0]
        body = body.removesuffix("\n").removesuffix("\r") if keeps_breaks else body.rstrip(" \t\r\n")
        node.end = node.start + len(body)
    return node


def _set_missing_position(node: Node, parent: Node, key: Node | None, text: str) -> None:
    """Set the position of an omitted value: after its colon or dash, not where the parser noticed it."""
    if node.start == node.end and node.is_plain and not parent.is_flow:
        before = parent.start
        if key:
            before = key.end
        elif parent.members:
            before = parent.members[-1].end
        pattern = _AFTER_KEY if parent.kind == "mapping" else _AFTER_DASH
        sign = pattern.match(text, before)
        node.start = node.end = sign.end() if sign else before


def is_null(node: Node) -> bool:
    """Return whether a value is left out, or written as null."""
    return node.kind == "scalar" and node.is_plain and node.text in _WORDS and _WORDS[node.text] is None


class YamlReader:
    """Turns nodes into plain data. It follows aliases, up to a limit of added data."""

    def __init__(self, text: str, *, strict: bool) -> None:
        self._text = text
        self._strict = strict
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._copied = 0

    def read_node(self, node: Node) -> tuple[Any, int]:
        """Return the data of a node, and its weight: how much an alias of it adds to the document (MAX_COPIED)."""
        if node.kind == "alias":
            return self._resolve_alias(node)
        self._check_tag(node)
        if node.anchor:
            self._anchors[node.anchor] = (_UNFINISHED, 0)
        weight = 1 + len(node.text) // 64
        data: Any
        if node.kind == "mapping":
            data, inner = self._read_mapping(node)
            weight += inner
        elif node.kind == "list":
            data = []
            for member in node.members:
                item, inner = self.read_node(member.value)
                data.append(item)
                weight += inner
        elif node.is_plain and node.tag is None:
            data = self._read_plain(node)
        else:
            data = node.text
        if node.anchor:
            self._anchors[node.anchor] = (data, weight)
        return data, weight

    def _read_mapping(self, node: Node) -> tuple[dict[str, Any], int]:
        data: dict[str, Any] = {}
        bases: list[dict[str, Any]] = []
        total = 0
        for member in node.members:
            is_merge = member.key == "<<" and member.key_node is not None and member.key_node.is_plain
            if member.key_node is not None:
                member.key, weight = self._read_key(member.key_node)
                total += weight
            value, weight = self.read_node(member.value)
            total += weight
            mappings = value if isinstance(value, list) else [value]
            if is_merge and all(isinstance(mapping, dict) for mapping in mappings):
                bases += mappings
            elif is_merge and self._strict:
                problem = f"'<<' merges mappings, found {describe_kind(value)}"
                self._fail(member.value, problem, "Give it an alias of a mapping.")
            else:
                data[str(member.key)] = value
        for base in bases:
            data.update({key: value for key, value in base.items() if key not in data})
        return data, total

    def _read_key(self, node: Node) -> tuple[str, int]:
        key, weight = self.read_node(node)
        if isinstance(key, str):
            return key, weight
        if self._strict and node.kind in {"mapping", "list"}:
            self._fail(node, "a key that is a list or a mapping", "Keys are text.")
        if self._strict:
            self._fail(node, f"a key that is {describe_kind(key)}, not text", "Write it in quotes.")
        return node.text or str(key), weight

    def _resolve_alias(self, node: Node) -> tuple[Any, int]:
        value, weight = self._anchors.get(node.text, (None, 0))
        if not weight:
            problem = "that contains itself" if value is _UNFINISHED else "that is not defined before it"
            self._fail(node, f"'*{node.text}' is an anchor {problem}", "Write the value out.")
        self._copied += weight
        if self._copied > MAX_COPIED:
            self._fail(node, "aliases that multiply to an enormous document", "Write the values out.")
        return value, weight

    def _read_plain(self, node: Node) -> Any:
        """Convert text without quotes according to the core schema."""
        text = node.text
        if text in _WORDS:
            return _WORDS[text]
        match = _WHOLE.fullmatch(text)
        if match:
            if len(text) > _MAX_DIGITS:
                self._fail(node, "a number of too many digits", "Write it in quotes.")
            base = {"ten": 10, "eight": 8, "sixteen": 16}[str(match.lastgroup)]
            return int(match[str(match.lastgroup)], base)
        if _NUMBER.fullmatch(text):
            return float(text)
        if _SPECIAL.fullmatch(text):
            # Python writes `.inf` and `.nan` without the dot.
            return float(text.lower().replace(".", "", 1))
        return text

    def _check_tag(self, node: Node) -> None:
        standard_tag = {"mapping": "map", "list": "seq", "scalar": "str"}[node.kind]
        if self._strict and node.tag not in (None, "!", _CORE + standard_tag):
            name = str(node.tag).replace(_CORE, "!!")
            self._fail(node, f"the tag {quote_text(name)} is not allowed here", "Remove the tag.")

    def _fail(self, node: Node, problem: str, hint: str) -> NoReturn:
        raise ConfigError(problem, line=get_line_number(self._text, node.start), hint=hint)
