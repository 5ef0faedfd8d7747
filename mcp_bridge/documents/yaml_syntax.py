"""YAML as a tree of nodes with positions, built from parser events; no objects are constructed."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from mcp_bridge.documents.edit import lone_return, unsafe

_HINT = "Mend the file in an editor, then run the command again."
_BLANKS = r"(?:[ \t\r\n]|#[^\r\n]*)*"
_AFTER_KEY = re.compile(_BLANKS + ":")
_AFTER_DASH = re.compile(_BLANKS + "-")
_DIRECTIVE = re.compile(_BLANKS + "%")
_ODD_BREAK = re.compile("[\x85\u2028\u2029\ufeff]")
_MAX_COPIED = 100_000
_MAX_DEPTH = 100
_WORDS: dict[str, bool | None] = dict.fromkeys(("", "~", "null", "Null", "NULL")) | {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_WHOLE = re.compile(r"[-+]?[0-9]{1,400}")
_NUMBER = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")


@dataclass(slots=True, kw_only=True)
class Node:
    """A value: `start` and `end` are where it begins and where its last character was, not where the parser went on."""

    kind: Literal["map", "list", "scalar", "alias"]
    start: int
    end: int
    anchor: str | None = None
    tag: str | None = None
    is_flow: bool = False
    is_plain: bool = False
    text: str = ""
    children: list[Node] = field(default_factory=list)

    @property
    def pairs(self) -> Sequence[tuple[Node, Node]]:
        """A mapping's keys and values, in order."""
        return list(zip(self.children[::2], self.children[1::2], strict=False)) if self.kind == "map" else []

    @property
    def is_null(self) -> bool:
        """A value that is not written, or written as null."""
        return self.kind == "scalar" and self.is_plain and self.text in _WORDS and _WORDS[self.text] is None

    @property
    def is_marked(self) -> bool:
        """Something elsewhere may refer to it, or it means what its tag says."""
        return self.anchor is not None or self.tag is not None or self.kind == "alias"

    @property
    def shape(self) -> Any:
        """What the value is, without its place and its style: equal shapes are equal data."""
        inside = tuple(child.shape for child in self.children)
        plain = self.is_plain and (self.text in _WORDS or _NUMBER.fullmatch(self.text) is not None)
        return (self.kind, self.anchor, self.tag, plain or self.text == "<<", self.text, inside)


def parse(text: str) -> Node | None:
    """The only document's tree, None where there is no document. Raises Unsafe with the line."""
    _look(text)
    open_nodes: list[Node] = []
    root: Node | None = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an anchor that is used twice is no matter of ours
        for event in _events(text):
            kind = type(event).__name__
            if kind in {"MappingEndEvent", "SequenceEndEvent"}:
                _close(open_nodes.pop(), event)
            elif kind == "DocumentStartEvent" and root is not None:
                raise unsafe("a second document", line=event.start_mark.line + 1)
            elif kind in {"MappingStartEvent", "SequenceStartEvent", "ScalarEvent", "AliasEvent"}:
                node = _node(event, kind)
                _place(node, open_nodes, text)
                root = root or node
                if kind.endswith("StartEvent"):
                    open_nodes.append(node)
            if len(open_nodes) > _MAX_DEPTH:
                raise unsafe("nested too deeply", line=event.start_mark.line + 1)
    return root


def data(root: Node | None) -> Any:
    """The tree as plain data: keys are text, aliases are followed. Raises Unsafe where they multiply without end."""
    return None if root is None else _Reading().data(root)


def word(text: str) -> bool | int | float | str | None:
    """What plain text means in the core schema of YAML 1.2."""
    if text in _WORDS:
        return _WORDS[text]
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text


@dataclass(slots=True, kw_only=True)
class _Reading:
    anchors: dict[str, Any] = field(default_factory=dict)
    weights: dict[str, int] = field(default_factory=dict)
    weight: int = 0

    def data(self, node: Node) -> Any:
        begun = self.weight
        self.weight += 1
        if self.weight > _MAX_COPIED:
            raise unsafe("more values than a settings file has, or aliases that multiply")
        if node.kind == "alias":
            if node.text not in self.anchors:
                raise unsafe(f"'*{node.text}' has no anchor before it")
            self.weight += self.weights[node.text]
            return self.anchors[node.text]
        value = self._value(node)
        if node.anchor:
            self.anchors[node.anchor], self.weights[node.anchor] = value, self.weight - begun
        return value

    def _value(self, node: Node) -> Any:
        if node.kind == "map":
            return {str(self.data(key)): self.data(value) for key, value in node.pairs}
        if node.kind == "list":
            return [self.data(child) for child in node.children]
        return word(node.text) if node.is_plain and node.tag is None else node.text


def _look(text: str) -> None:
    line = lone_return(text)
    if line is not None:
        raise unsafe("a carriage return without a line feed", line=line)
    if found := _ODD_BREAK.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise unsafe("a character that some readers of YAML take for a line end", line=line)
    if _DIRECTIVE.match(text):
        raise unsafe("a directive (a line that begins with %)")


def _events(text: str) -> Iterator[Any]:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        yield from YAML(typ="safe", pure=True).parse(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = f"not valid YAML: {error.problem or error.context}"
        raise unsafe(problem, line=mark.line + 1 if mark else None, hint=_HINT) from None
    except (YAMLError, ValueError, LookupError, ArithmeticError, AttributeError, TypeError, AssertionError) as error:
        # ruamel.yaml has no error of its own for some texts (an escape beyond Unicode, an odd directive).
        raise unsafe(f"not valid YAML ({type(error).__name__})", hint=_HINT) from None


def _node(event: Any, kind: str) -> Node:
    start, end = event.start_mark.index, event.end_mark.index
    if kind == "AliasEvent":
        return Node(kind="alias", start=start, end=end, text=event.anchor)
    tag = None if event.tag is None else str(event.tag)
    if kind == "ScalarEvent":
        is_plain = event.style is None
        return Node(
            kind="scalar", start=start, end=end, anchor=event.anchor, tag=tag, is_plain=is_plain, text=event.value
        )
    collection: Literal["map", "list"] = "map" if kind == "MappingStartEvent" else "list"
    return Node(kind=collection, start=start, end=end, anchor=event.anchor, tag=tag, is_flow=bool(event.flow_style))


def _place(node: Node, open_nodes: Sequence[Node], text: str) -> None:
    """Add a value to what is open, and end it where its text ends, not where white space and comments do."""
    if node.kind == "scalar" and text[node.start : node.start + 1] in {"|", ">"} and not node.is_plain:
        body = text[node.start : node.end]
        is_kept = "+" in body.split("\n", 1)[0].split("#")[0]
        shown = body.removesuffix("\n").removesuffix("\r") if is_kept else body.rstrip(" \t\r\n")
        node.end = node.start + len(shown)
    if not open_nodes:
        return
    parent = open_nodes[-1]
    if node.start == node.end and node.is_plain and not parent.is_flow:
        before = parent.children[-1].end if parent.children else parent.start
        sign = (_AFTER_KEY if parent.kind == "map" else _AFTER_DASH).match(text, before)
        node.start = node.end = sign.end() if sign else before
    parent.children.append(node)


def _close(node: Node, event: Any) -> None:
    if node.is_flow:
        node.end = event.end_mark.index
    elif node.children:
        node.end = node.children[-1].end
