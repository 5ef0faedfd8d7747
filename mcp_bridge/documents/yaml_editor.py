"""One entry of a YAML text: whole lines inserted after the last entry, the same lines removed again."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_bridge.documents import yaml_layout as layout
from mcp_bridge.documents.edit import Edit, Target, Undo, Unsafe, newline_of, unsafe
from mcp_bridge.documents.yaml_syntax import Node, data, parse

_NOTHING = re.compile(r":([ \t]*(?:\{[ \t]*\}|\[[ \t]*\]|null|Null|NULL|~)?)")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """How far the way to an entry goes."""

    pairs: Sequence[tuple[Node, Node]]
    """A key and its value for each container that is there, below the root."""
    container: Node | None
    """The innermost of them; None in a text without a document."""
    entry: tuple[Node, Node] | None
    """What begins the entry and its value: a key, or for an item of a list the item twice."""


def read(text: str, format: str) -> Any:
    """The text's data; None where there is none. Raises Unsafe with the line."""
    return data(parse(text))


def put(text: str, target: Target, value: Mapping[str, Any], format: str) -> Edit:
    """The text with the entry in it. Raises Unsafe."""
    root = parse(text)
    data(root)
    found = _find(root, target, text)
    if found.entry is not None:
        edit = _replace(text, found.entry, target, value)
    else:
        edit = _insert(text, root, found, target, value)
    _check(text, edit.text, target, value)
    return edit


def drop(text: str, target: Target, undo: Undo | None, format: str) -> str:
    """The text without the entry, or as it is where there is none. Raises Unsafe."""
    root = parse(text)
    found = _find(root, target, text)
    if found.entry is None:
        return text
    depth = _emptied(text, found, undo or {})
    key, value = found.entry if depth == len(found.pairs) else found.pairs[depth]
    start, end = layout.lines(text, key.start, value.end)
    dropped = layout.cut(text, start, end)
    container = found.pairs[depth - 1][1] if depth else root
    if container is not None and len(container.children) == (2 if container.kind == "map" else 1):
        if depth:
            dropped = _emptying(text, dropped, *found.pairs[depth - 1], undo or {})
        elif undo and "root" in undo:
            dropped = text[:start] + undo["root"] + text[end:]
    _check_dropped(text, dropped, target)
    return dropped


def _emptying(text: str, dropped: str, key: Node, container: Node, undo: Undo) -> str:
    """Give a container that has lost its only entry what it held before: nothing, `{}`, `[]` or null."""
    held = undo.get("held", " []" if container.kind == "list" else " {}")
    colon = text.index(":", key.end) + 1
    return f"{dropped[:colon]}{held}{dropped[colon:]}"


def _find(root: Node | None, target: Target, text: str) -> _Found:
    """The way to the entry, as far as it is there."""
    pairs: list[tuple[Node, Node]] = []
    node = root
    for depth, key in enumerate((*target.within, None)):
        wanted = "list" if target.listed and key is None else "map"
        if node is None or node.is_null or (not node.children and node.is_flow):
            _expect_empty(node, wanted, target, depth, text)
            return _Found(pairs=pairs, container=node, entry=None)
        _expect(node, wanted, target, depth, text)
        if key is None:
            return _Found(pairs=pairs, container=node, entry=_entry(node, target, text))
        pair = _only([pair for pair in node.pairs if _is_text(pair[0], key)], key, text)
        if pair is None:
            return _Found(pairs=pairs, container=node, entry=None)
        pairs.append(pair)
        node = pair[1]
    raise AssertionError  # the last key is None


def _entry(node: Node, target: Target, text: str) -> tuple[Node, Node] | None:
    if not target.listed:
        return _only([pair for pair in node.pairs if _is_text(pair[0], target.name)], target.name, text)
    items = [
        (item, item)
        for item in node.children
        for key, value in item.pairs
        if _is_text(key, target.known_by) and _is_text(value, target.name)
    ]
    return _only(items, target.name, text)


def _is_text(node: Node, text: str) -> bool:
    return node.kind == "scalar" and node.text == text


def _only(pairs: Sequence[tuple[Node, Node]], name: str, text: str) -> tuple[Node, Node] | None:
    if len(pairs) > 1:
        raise unsafe(f"'{name}' stands there twice", line=layout.line_of(text, pairs[1][0].start))
    if pairs and (pairs[0][0].is_marked or pairs[0][1].is_marked):
        raise unsafe("an anchor, an alias or a tag", line=layout.line_of(text, pairs[0][0].start), where=name)
    return pairs[0] if pairs else None


def _expect(node: Node, wanted: str, target: Target, depth: int, text: str) -> None:
    where = ".".join(target.within[:depth]) or "the whole file"
    line = layout.line_of(text, node.start)
    if node.kind != wanted:
        raise unsafe(f"not a {'list' if wanted == 'list' else 'mapping'}", line=line, where=where)
    if node.is_marked or any(_is_text(key, "<<") for key, _ in node.pairs):
        raise unsafe("an anchor, an alias or a tag", line=line, where=where)
    if node.is_flow:
        raise unsafe("written in brackets, not in lines", line=line, where=where)


def _expect_empty(node: Node | None, wanted: str, target: Target, depth: int, text: str) -> None:
    """A container without anything may be missing, null, or a pair of brackets of its kind."""
    if node is None or (node.is_null and not node.is_marked and (depth or not node.text)):
        return
    if node.kind != wanted or node.is_marked:
        where = ".".join(target.within[:depth]) or "the whole file"
        raise unsafe("not an empty container of the right kind", line=layout.line_of(text, node.start), where=where)


def _insert(text: str, root: Node | None, found: _Found, target: Target, value: Mapping[str, Any]) -> Edit:
    """Put the entry, and the containers that it lacks, on lines of their own."""
    missing = target.within[len(found.pairs) :]
    undo: dict[str, Any] = {"created": len(missing)}
    if found.container is None or (not found.pairs and found.container.is_null):
        block = layout.block(_nested(missing, target, value), 0, newline_of(text), layout.STEP)
        return Edit(text=layout.after(text, len(text), block, newline_of(text)), undo=undo)
    container, payload = found.container, _nested(missing, target, value)
    if container.children:
        column = layout.column_of(text, container)
        at = layout.end_of_entries(text, container.end, column)
    elif not found.pairs:
        undo["root"] = text[container.start : container.end]
        block = layout.block(payload, 0, newline_of(text), layout.STEP)
        return Edit(text=text[: container.start] + block + text[container.end :], undo=undo)
    else:
        text, undo["held"], at, column = _opened(text, root, found)
    block = layout.block(payload, column, newline_of(text), layout.step_of(text, root))
    return Edit(text=layout.after(text, at, block, newline_of(text)), undo=undo)


def _opened(text: str, root: Node | None, found: _Found) -> tuple[str, str, int, int]:
    """The text with an empty container's brackets gone, what they were, and where and how deep its entries go."""
    key, value = found.pairs[-1]
    held = _NOTHING.fullmatch(text, key.end, value.end)
    if held is None:
        raise unsafe("an empty container in a form that is not known", line=layout.line_of(text, key.start))
    opened = text[: held.start(1)] + text[held.end(1) :]
    outer = key.start - layout.start_of_line(text, key.start)
    if text[layout.start_of_line(text, key.start) : key.start].strip(" "):
        raise unsafe("a key that does not begin its line", line=layout.line_of(text, key.start))
    column = outer + layout.step_of(text, root)
    return opened, held.group(1), layout.end_of_entries(opened, held.start(1), column), column


def _replace(text: str, entry: tuple[Node, Node], target: Target, value: Mapping[str, Any]) -> Edit:
    """Give the entry its new value, on the lines of the old one."""
    undo = {"replaced": True}
    if _same(data(entry[1]), value):
        return Edit(text=text, undo=undo)
    start, end = layout.lines(text, entry[0].start, entry[1].end)
    if target.listed:
        column = len(text[start : entry[0].start].split("-", maxsplit=1)[0])
        block = layout.block([value], column, newline_of(text), layout.STEP)
    else:
        block = layout.block(
            {target.name: value}, entry[0].start - start, newline_of(text), layout.step_in(text, entry)
        )
    return Edit(text=text[:start] + block + text[end:], undo=undo)


def _emptied(text: str, found: _Found, undo: Undo) -> int:
    """How many containers are left above what is cut: those made for the entry go, where they hold nothing else."""
    depth = len(found.pairs)
    top = depth - int(undo.get("created", 0))
    first = found.entry[0].start if found.entry else 0
    while depth > max(top, 0):
        key, value = found.pairs[depth - 1]
        if len(value.children) != (2 if value.kind == "map" else 1):
            break
        if "#" in text[key.end : layout.start_of_line(text, first)]:
            break
        depth -= 1
    return depth


def _nested(missing: Sequence[str], target: Target, value: Mapping[str, Any]) -> Any:
    nested: Any = [value] if target.listed else {target.name: value}
    for key in reversed(missing):
        nested = {key: nested}
    return nested


def _same(one: Any, other: Any) -> bool:
    """Equal as JSON: `1`, `1.0` and `true` are three things, the order of keys is none."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _check(text: str, edited: str, target: Target, value: Mapping[str, Any]) -> None:
    """The entry is what was wanted, and without it everything is as it was."""
    found = _find(_again(edited, target), target, edited)
    if found.entry is None or not _same(data(found.entry[1]), value):
        raise unsafe("the edited text would not have the entry", where=target.where)
    _check_dropped(edited, text, target)


def _check_dropped(full: str, bare: str, target: Target) -> None:
    """Both texts have the same data but for the entry, and for containers that are empty without it."""
    if _pruned(_again(full, target), target, 0) != _pruned(_again(bare, target), target, 0):
        raise unsafe("the edit would change something else", where=target.where)


def _again(text: str, target: Target) -> Node | None:
    """The tree of an edited text, which need not be YAML: an alias, for example, may have lost its anchor."""
    try:
        root = parse(text)
        data(root)
    except Unsafe:
        raise unsafe("the edit would break the file", where=target.where) from None
    return root


def _pruned(node: Node | None, target: Target, depth: int) -> Any:
    """A shape without the entry, and without containers on the way to it that are empty then."""
    if node is None or node.is_null or not node.children:
        return None
    if depth == len(target.within):
        gone = _entry(node, target, "")
        if node.kind == "list":
            return [item.shape for item in node.children if not gone or item is not gone[0]] or None
        return [(key.shape, value.shape) for key, value in node.pairs if not gone or key is not gone[0]] or None
    pairs = []
    for key, value in node.pairs:
        is_way = _is_text(key, target.within[depth])
        shape = _pruned(value, target, depth + 1) if is_way else value.shape
        pairs += [(key.shape, shape)] if shape is not None or not is_way else []
    return pairs or None
