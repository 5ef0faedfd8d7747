"""One entry of a JSON text, with or without comments: inserted as the last member, removed with its comma."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mcp_bridge.documents import json_layout
from mcp_bridge.documents.edit import Edit, Target, Undo, Unsafe, newline_of, unsafe
from mcp_bridge.documents.json_layout import WIDE, has_break
from mcp_bridge.documents.json_path import Found, find
from mcp_bridge.documents.json_syntax import Member, Source, Span, Value, parse, plain

_BLANK = b" \t\r\n"


def read(text: str, format: str) -> Any:
    """The text's data, None where there is none; half surrogates are replaced. Raises Unsafe with the line."""
    data = plain(text, format)
    return json.loads(json.dumps(data, ensure_ascii=False).encode("utf-8", "replace"))


def put(text: str, target: Target, value: Mapping[str, Any], format: str) -> Edit:
    """The text with the entry in it. Raises Unsafe."""
    source = parse(text, format)
    if source.root is None:
        edit = _new(source, target, value)
    else:
        found = find(source.root, target)
        edit = _insert(source, found, target, value) if found.entry is None else _replace(source, found.entry, value)
    _check(source, _again(edit.text, target, format), target, value)
    return edit


def drop(text: str, target: Target, undo: Undo | None, format: str) -> str:
    """The text without the entry, or as it is where there is none. Raises Unsafe."""
    source = parse(text, format)
    found = None if source.root is None else find(source.root, target)
    if found is None or found.entry is None:
        return text
    undo = undo or {}
    depth = _emptied(source, found, found.entry, undo)
    if depth < 0:
        dropped = _without_root(source, undo)
    else:
        member = found.entry if depth == len(found.members) else found.members[depth]
        is_whole = depth == len(found.members) - int(undo.get("created", 0))
        dropped = _cut(source, found.containers[depth], member, undo.get("inside") if is_whole else None)
    _check_dropped(source, found.entry, _again(dropped, target, format), target)
    return dropped


def _new(source: Source, target: Target, value: Mapping[str, Any]) -> Edit:
    """A text without an object gets one, after its comments."""
    newline = newline_of(source.data.decode())
    layout = json_layout.Layout(indent="", unit=json_layout.INDENT, newline=newline)
    keys = target.within
    payload = _nested(keys[1:], target, value) if keys else value
    whole = layout.value({(keys[0] if keys else target.name): payload})
    at = max([end for _, end in source.comments], default=0)
    before = newline if at else ""
    after = "" if source.data[at:] else newline
    text = source.data[:at].decode() + before + whole + after + source.data[at:].decode()
    return Edit(text=text, undo={"created": len(keys), "root": [before, after]})


def _nested(keys: Sequence[str], target: Target, value: Mapping[str, Any]) -> Any:
    nested: Any = [value] if target.listed else {target.name: value}
    for key in reversed(keys):
        nested = {key: nested}
    return nested


def _insert(source: Source, found: Found, target: Target, value: Mapping[str, Any]) -> Edit:
    """Put the entry, and the containers that it lacks, after the last member of what is there."""
    container = found.containers[-1]
    missing = target.within[len(found.members) :]
    key = missing[0] if missing else None if target.listed else target.name
    payload = _nested(missing[1:], target, value) if missing else value
    start, close = json_layout.rest(source, container)
    space = source.data[start:close]
    layout = json_layout.of(source, container)
    undo: dict[str, Any] = {"created": len(missing)}
    if not container.members and layout.indent is not None and not has_break(space):
        if len(space) > WIDE:
            layout = replace(layout, indent=None)
        else:
            undo["inside"] = space.decode()
            outer = json_layout.indent_at(source, container.span[0])
            space = f"{layout.newline}{outer}".encode()
    pieces = _pieces(source, container, layout, layout.member(key, payload))
    spliced = _spliced(source.data, [*pieces, ((start, close), space)])
    return Edit(text=spliced.decode(), undo=undo)


def _pieces(source: Source, container: Value, layout: json_layout.Layout, member: bytes) -> list[tuple[Span, bytes]]:
    """What is put in where: a comma after the last member, the new one after the last comment."""
    start, close = json_layout.rest(source, container)
    last = container.members[-1].end if container.members else None
    has_comma = last is not None and any(comma >= last for comma in container.commas)
    gap = layout.gap()
    if not gap and _ends_in_line_comment(container, source.data, start):
        gap = layout.newline.encode()
    elif not gap and last is not None:
        gap = layout.comma[1:].encode()
    elif not gap and source.data[start:close] == b" ":
        gap = b" "
    comma = [((last, last), b",")] if last is not None and not has_comma else []
    return [*comma, ((start, start), gap + member + (b"," if has_comma else b""))]


def _replace(source: Source, entry: Member, value: Mapping[str, Any]) -> Edit:
    """Give the entry its new value, in the layout that it stands in."""
    if _same(entry.value.plain, value):
        return Edit(text=source.data.decode(), undo={"replaced": True})
    start, end = entry.value.span
    layout = json_layout.of(source, entry.value)
    is_wide = has_break(source.data[start:end]) or (not entry.value.members and layout.indent is not None)
    layout = replace(layout, indent=json_layout.indent_at(source, entry.start) if is_wide else None)
    return Edit(
        text=_spliced(source.data, [((start, end), layout.value(value).encode())]).decode(), undo={"replaced": True}
    )


def _emptied(source: Source, found: Found, entry: Member, undo: Undo) -> int:
    """The depth of the container to cut from: upwards through those made for the entry that hold nothing else.

    -1: the root was made for it too.
    """
    depth = len(found.members)
    top = depth - int(undo.get("created", 0))
    while depth > max(top, 0) and _is_alone(source, found, entry, depth):
        depth -= 1
    return -1 if depth == 0 and "root" in undo and _is_alone(source, found, entry, 0) else depth


def _is_alone(source: Source, found: Found, entry: Member, depth: int) -> bool:
    """Whether a container has nothing, comments included, but what leads to the entry."""
    container = found.containers[depth]
    start, end = (found.members[depth - 1].start, container.span[1]) if depth else container.span
    others = [at for at, _ in source.comments if start <= at < end and not entry.start <= at < entry.end]
    return len(container.members) == 1 and not others


def _without_root(source: Source, undo: Undo) -> str:
    """The text of a file in which nothing was but comments, as it was."""
    start, end = source.root.span if source.root else (0, 0)
    before, after = (str(part).encode() for part in undo["root"])
    head, tail = source.data[:start], source.data[end:]
    return (head.removesuffix(before) + (b"" if tail == after else tail)).decode()


def _cut(source: Source, container: Value, member: Member, inside: str | None) -> str:
    """Take a member out: with the space before it, and with the comma that only it needs."""
    data = source.data
    others = [*container.comments, *((comma, comma + 1) for comma in container.commas)]
    others += [(other.start, other.end) for other in container.members]
    before = max([container.span[0] + 1, *(end for _, end in others if end <= member.start)])
    follows = min([container.span[1] - 1, *(other.start for other in container.members if other.start >= member.end)])
    after = [comma for comma in container.commas if member.end <= comma < follows]
    comma = after[0] if after else max([comma for comma in container.commas if comma < member.start], default=None)
    end = member.end
    if after and not data[end : after[0]].strip(_BLANK):
        end, comma = after[0] + 1, None
    start = before
    if data[before - 1 : before] in b"{[" and not has_break(data[before : member.start]):
        space = len(data[end:follows]) - len(data[end:follows].lstrip(_BLANK))
        if follows < container.span[1] - 1 and not has_break(data[end : end + space]):
            start, end = member.start, end + space
    elif _ends_in_line_comment(container, data, before) and not has_break(data[end : end + _blanks(data, end) + 1]):
        start = member.start
    cuts = [((start, end), b"")] + ([((comma, comma + 1), b"")] if comma is not None else [])
    if inside is not None and len(container.members) == 1 and not data[end : container.span[1] - 1].strip(_BLANK):
        cuts[0] = ((start, container.span[1] - 1), inside.encode())
    return _spliced(data, cuts).decode()


def _blanks(data: bytes, at: int) -> int:
    """How many spaces and tabs follow."""
    return len(data[at:]) - len(data[at:].lstrip(b" \t"))


def _ends_in_line_comment(container: Value, data: bytes, at: int) -> bool:
    return any(end == at and data[start : start + 2] == b"//" for start, end in container.comments)


def _spliced(data: bytes, pieces: Sequence[tuple[Span, bytes]]) -> bytes:
    """The text with each span replaced; those that share a place are put one after the other."""
    parts, at = [], 0
    for (start, end), new in sorted(pieces, key=lambda piece: piece[0][0]):
        parts += [data[at:start], new]
        at = max(at, end)
    return b"".join([*parts, data[at:]])


def _same(one: Any, other: Any) -> bool:
    """Equal as JSON: `1`, `1.0` and `true` are three things, the order of keys is none."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _texts(source: Source, without: Span = (0, 0)) -> Sequence[bytes]:
    inside = range(*without)
    return [source.data[start:end] for start, end in source.comments if start not in inside]


def _check(before: Source, after: Source, target: Target, value: Mapping[str, Any]) -> None:
    """The entry is what was wanted, and without it all data is as it was."""
    found = None if after.root is None else find(after.root, target)
    entry = None if found is None else found.entry
    if entry is None or not _same(entry.value.plain, value):
        raise unsafe("the edited text would not have the entry", where=target.where)
    _check_dropped(after, entry, before, target)


def _again(text: str, target: Target, format: str) -> Source:
    try:
        return parse(text, format)
    except Unsafe:
        raise unsafe("the edit would break the file", where=target.where) from None


def _check_dropped(full: Source, entry: Member, bare: Source, target: Target) -> None:
    """Both texts have the same data and comments but for the entry, and for containers that are empty without it."""
    plain_full, plain_bare = (None if each.root is None else each.root.plain for each in (full, bare))
    same_data = json.dumps(_pruned(plain_full, target)) == json.dumps(_pruned(plain_bare, target))
    replaced = plain_bare is not None and bare.root is not None and find(bare.root, target).entry
    gone = (replaced.start, replaced.end) if replaced else (0, 0)
    if not same_data or _texts(full, (entry.start, entry.end)) != _texts(bare, gone):
        raise unsafe("the edit would change something else", where=target.where)


def _pruned(data: Any, target: Target) -> Any:
    """The data without the entry, and without the containers on the way to it that are empty then."""
    keys = target.within
    if target.listed and not keys:
        return [item for item in data or [] if not _is_named(item, target)] or None
    if not isinstance(data, dict):
        return data
    if not keys:
        return {key: value for key, value in data.items() if key != target.name} or None
    inner = data.get(keys[0])
    below = replace(target, within=keys[1:])
    if target.listed and len(keys) == 1:
        pruned = [item for item in inner if not _is_named(item, target)] if isinstance(inner, list) else inner
    else:
        pruned = _pruned(inner, below)
    rest = {key: (pruned if key == keys[0] else value) for key, value in data.items()}
    return {key: value for key, value in rest.items() if key != keys[0] or value} or None


def _is_named(item: Any, target: Target) -> bool:
    return isinstance(item, dict) and item.get(target.known_by) == target.name
