"""Reads, inserts, replaces and removes one entry of a text; every other byte stays as it is.

An edit parses the text, splices it, and parses the result to compare: nothing but the entry may differ. A `Change`
describes an edit, so that it can be reverted later: byte for byte, unless the entry has changed since.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._settings.documents.edit import BY_HAND, EditTarget, Format, UnsafeEdit, make_unsafe_error
from mcp_bridge._settings.documents.syntax import EntryPath, Kind, Member, SourceText, get_line_number, splice

MAX_READ: Mapping[Format, int] = {"json": 64 << 20, "jsonc": 4 << 20, "yaml": 1 << 18, "toml": 1 << 20}
"""Characters that a text may have. The parser of YAML is written in Python, and slow."""
MAX_EDITED: Mapping[Format, int] = {**MAX_READ, "json": 4 << 20, "yaml": 1 << 16}
"""The same for an edit, which needs the position of each value."""

Change = Mapping[str, Any]
"""JSON data about an edit of one entry: the text that it replaced (`old`), how many characters before and after the
entry the new text has (`before`, `after`), its SHA-256 (`digest`), whether the container has no other entry (`alone`),
and the data of the entry that it replaced, if there was one (`value`)."""


def read_data(format: Format, text: str) -> Any:
    """Return the text as plain data; None for a text without a value (TOML: an empty table).

    Half surrogates are replaced, and dates of TOML are text. Raises ConfigError with the line where the text is
    invalid. The error has no path: set it.
    """
    with _convert_errors():
        data = _parse_text(format, text, MAX_READ).data
    return json.loads(json.dumps(data, ensure_ascii=False, default=str).encode("utf-8", "replace"))


def put_entry(
    format: Format, text: str, within: Sequence[str], name: str, value: Mapping[str, Any], *, listed: bool = False
) -> str:
    """Add or replace the entry `name` in the container that the keys `within` lead to. Return the new text.

    A missing container is added; `listed` says that it is a list whose items have a `name`. An existing entry gets
    the new value in its place. An equal entry leaves the text as it is.

    Raises UnsafeEdit if the text cannot be edited without risk. The error has no path: set it.
    """
    target = EditTarget(within=tuple(within), name=name, listed=listed)
    wanted = _check_value(value, target)
    with _convert_errors():
        source = _parse_text(format, text, MAX_EDITED, target)
        path = _find_entry(source, target)
        if path.entry is None:
            edited_text = source.insert(path, target, wanted)
        elif _is_same(path.data, wanted):
            return text
        else:
            edited_text = source.replace(path.entry, target, wanted)
        edited = _parse_again(format, edited_text, target)
        added = _find_entry(edited, target)
        if added.entry is None or not _is_same(added.data, wanted):
            raise make_unsafe_error("the edited text would not have the entry", where=target.where)
        _check_rest(source, path.entry, edited, added.entry, target)
    if path.entry is None:
        _check_removable(format, edited_text, target)
    return edited_text


def _check_removable(format: Format, text: str, target: EditTarget) -> None:
    """Raise UnsafeEdit if the entry cannot be removed again."""
    try:
        remove_entry(format, text, target.within, target.name, listed=target.listed)
    except UnsafeEdit:
        raise make_unsafe_error("the entry could be added, but not be removed again", where=target.where) from None


def remove_entry(format: Format, text: str, within: Sequence[str], name: str, *, listed: bool = False) -> str:
    """Return the text without the entry. Its container stays, and so does a text without such an entry.

    Raises UnsafeEdit if the text cannot be edited without risk. The error has no path: set it.
    """
    target = EditTarget(within=tuple(within), name=name, listed=listed)
    with _convert_errors():
        source = _parse_text(format, text, MAX_EDITED, target)
        path = _find_entry(source, target)
        if path.entry is None:
            return text
        edited = _parse_again(format, source.remove(path), target)
        if _find_entry(edited, target).entry is not None:
            raise make_unsafe_error("the edited text would still have the entry", where=target.where)
        _check_rest(source, path.entry, edited, None, target)
    return edited.text


def describe_change(
    format: Format, old: str, new: str, within: Sequence[str], name: str, *, listed: bool = False
) -> Change:
    """Describe the change between two texts that differ in the entry `name`, which the new one has.

    Raises UnsafeEdit if that cannot be read. The error has no path: set it.
    """
    target = EditTarget(within=tuple(within), name=name, listed=listed)
    with _convert_errors():
        before, after = (_find_entry(_parse_text(format, text, MAX_EDITED, target), target) for text in (old, new))
    if after.entry is None:
        raise make_unsafe_error("there is no such entry", where=target.where)
    start, rest = after.entry.start, len(new) - after.entry.end
    if before.entry is not None:
        start, rest = min(start, before.entry.start), min(rest, len(old) - before.entry.end)
    start = min(_count_equal_characters(old, new), start)
    rest = min(_count_equal_characters(old[start:][::-1], new[start:][::-1]), rest)
    change: dict[str, Any] = {
        "old": old[start : len(old) - rest],
        "before": after.entry.start - start,
        "after": len(new) - rest - after.entry.end,
        "digest": _compute_digest(new[start : len(new) - rest]),
        "alone": len(after.containers[-1].members) == 1,
    }
    if before.entry is not None:
        change["value"] = before.data
    return change


def revert_change(
    format: Format, text: str, within: Sequence[str], name: str, change: Change, *, listed: bool = False
) -> str:
    """Return the text as it was before the change of the entry `name`.

    Where the entry or what was written with it has changed since, only the entry is removed, or gets its former data.

    Raises UnsafeEdit if the text cannot be edited without risk. The error has no path: set it.
    """
    target = EditTarget(within=tuple(within), name=name, listed=listed)
    value = change.get("value")
    with contextlib.suppress(UnsafeEdit), _convert_errors():
        source = _parse_text(format, text, MAX_EDITED, target)
        path = _find_entry(source, target)
        if (piece := _find_changed_piece(text, path, change)) is not None:
            edited = _parse_text(format, splice(text, [(piece.start, piece.stop, change["old"])]), MAX_EDITED, target)
            restored = _find_entry(edited, target)
            _check_rest(source, path.entry, edited, restored.entry, target)
            if _is_same(restored.data, value) and (restored.entry is None) == (value is None):
                return edited.text
    if isinstance(value, Mapping):
        return put_entry(format, text, within, name, value, listed=listed)
    return remove_entry(format, text, within, name, listed=listed)


def has_other_content(format: Format, text: str, opening: str) -> bool:
    """Whether a text has more than the opening of a new file and empty containers.

    Raises UnsafeEdit for an invalid text. The error has no path: set it.
    """
    with _convert_errors():
        source, new_file = (_parse_text(format, one, MAX_READ) for one in (text, opening))
    if source.comments or (format in {"yaml", "toml"} and "#" in text):
        return True
    first_data = new_file.data or {}
    return any(_has_scalar(value) for key, value in (source.data or {}).items() if first_data.get(key) != value)


def _has_scalar(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_scalar, value.values()))
    return any(map(_has_scalar, value)) if isinstance(value, list) else value is not None


def _find_changed_piece(text: str, path: EntryPath, change: Change) -> range | None:
    """Return where the text of a change is, or None if it is no longer there as it was written."""
    lengths = change.get("before"), change.get("after")
    if path.entry is None or not isinstance(change.get("old"), str) or not all(isinstance(n, int) for n in lengths):
        return None
    # Without its other entries, a container in block style would become null.
    if len(path.containers[-1].members) == 1 and not change.get("alone"):
        return None
    piece = range(path.entry.start - change["before"], path.entry.end + change["after"])
    if piece.start < 0 or piece.stop > len(text) or _compute_digest(text[piece.start : piece.stop]) != change["digest"]:
        return None
    return piece


def _compute_digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _count_equal_characters(one: str, other: str) -> int:
    """Count how many characters both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (left, right) in pairs if left != right), min(len(one), len(other)))


def _parse_text(
    format: Format, text: str, limits: Mapping[Format, int], target: EditTarget | None = None
) -> SourceText:
    if len(text) > limits[format]:
        raise make_unsafe_error(f"larger than {limits[format] >> 10} KiB")
    if "\0" in text:
        raise make_unsafe_error("a NUL character", line=get_line_number(text, text.index("\0")))
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise make_unsafe_error("half of a surrogate pair", line=get_line_number(text, error.start)) from None
    lone = re.search(r"\r(?!\n)", text)
    if lone and format in {"yaml", "toml"}:  # these disagree whether it ends a line
        raise make_unsafe_error("a carriage return without a line feed", line=get_line_number(text, lone.start()))
    if format == "yaml":
        from mcp_bridge._settings.documents.yaml_syntax import check_editable

        check_editable(text)
    return parse_source(format, text, depth=len(target.within) + 2 if target else None)  # down to the entry's members


def parse_source(format: Format, text: str, *, depth: int | None = None, strict: bool = False) -> SourceText:
    """Parse a text. Its parser is imported late, so that a file pays only for its own: ruamel.yaml takes 20 ms."""
    if format == "toml":
        from mcp_bridge._settings.documents.toml_syntax import TomlText

        return TomlText(text)
    if format == "yaml":
        from mcp_bridge._settings.documents.yaml_syntax import YamlText

        return YamlText(text, strict=strict)
    from mcp_bridge._settings.documents.json_syntax import JsonText

    return JsonText(text, allow_comments=format == "jsonc", depth=depth)


def _parse_again(format: Format, text: str, target: EditTarget) -> SourceText:
    """Parse an edited text, which may be invalid: an alias, for example, may have lost its anchor."""
    try:
        return _parse_text(format, text, {**MAX_READ, format: len(text)}, target)
    except ConfigError:
        problem = "the edit would break the file"
        if format == "toml":  # an inline table, for example, cannot get another entry
            problem = "the servers are written in a form that a table cannot be added to"
        raise make_unsafe_error(problem, where=target.where) from None


@contextlib.contextmanager
def _convert_errors() -> Iterator[None]:
    """Raise every error of a parser as UnsafeEdit."""
    try:
        yield
    except UnsafeEdit:
        raise
    except ConfigError as error:
        raise UnsafeEdit(error.problem, line=error.line, where=error.where, hint=error.hint or BY_HAND) from None
    except RecursionError:
        raise make_unsafe_error("nested too deeply") from None


def _find_entry(source: SourceText, target: EditTarget) -> EntryPath:
    """Find the path to the entry. Raises UnsafeEdit if it is ambiguous or leads through a scalar."""
    node, data = source.root, source.data
    if node is None:
        return EntryPath(containers=[], members=[])
    containers, members = [node], list[Member]()
    for depth, key in enumerate(target.within):
        source.check_container(node, "mapping", ".".join(target.within[:depth]) or "the whole file")
        member = _get_only_member(source, [member for member in node.members if member.key == key], key)
        if member is None:
            return EntryPath(containers=containers, members=members)
        node, data = member.value, data[key]
        containers.append(node)
        members.append(member)
    kind: Kind = "list" if target.listed else "mapping"
    source.check_container(node, kind, ".".join(target.within) or "the whole file")
    if target.listed:
        named = [index for index, item in enumerate(data or []) if _is_named(item, target)]
        entry = _get_only_member(source, [node.members[index] for index in named], target.name)
        value = data[named[0]] if named else None
    else:
        entry = _get_only_member(source, [member for member in node.members if member.key == target.name], target.name)
        value = data[target.name] if entry else None
    return EntryPath(containers=containers, members=members, entry=entry, data=value)


def _get_only_member(source: SourceText, members: Sequence[Member], name: str) -> Member | None:
    if len(members) > 1:
        raise make_unsafe_error(f"'{name}' occurs there twice", line=get_line_number(source.text, members[1].start))
    if members and members[0].is_marked:
        line = get_line_number(source.text, members[0].start)
        raise make_unsafe_error("an anchor, an alias or a tag", line=line, where=name)
    return members[0] if members else None


def _check_value(value: Mapping[str, Any], target: EditTarget) -> dict[str, Any]:
    """Return the entry as JSON data, with its name in it if it is an item of a list."""
    named = {"name": target.name, **value} if target.listed else value
    try:
        text = json.dumps(named, allow_nan=False, ensure_ascii=False)
        f"{text}{target.where}".encode()
    except (TypeError, ValueError, RecursionError):
        raise make_unsafe_error("the entry is not JSON data", where=target.where) from None
    plain: dict[str, Any] = json.loads(text)
    return plain


def _check_rest(
    before: SourceText, old: Member | None, after: SourceText, new: Member | None, target: EditTarget
) -> None:
    """Raise UnsafeEdit unless both texts have the same data and comments, except the entry and its empty containers."""
    texts = [json.dumps(_prune(source.data, target), default=repr) for source in (before, after)]
    if texts[0] != texts[1] or _list_other_comments(before, old) != _list_other_comments(after, new):
        raise make_unsafe_error("the edit would change something else", where=target.where)


def _list_other_comments(source: SourceText, entry: Member | None) -> Sequence[str]:
    inside = range(entry.start, entry.end) if entry else range(0)
    return [source.text[start:end] for start, end in source.comments if start not in inside]


def _prune(data: Any, target: EditTarget, depth: int = 0) -> Any:
    """Return the data without the entry, and without the containers on the path to it that are then empty."""
    if depth == len(target.within):
        if target.listed:
            return [item for item in data if not _is_named(item, target)] or None if isinstance(data, list) else data
        if isinstance(data, dict):
            return {key: value for key, value in data.items() if key != target.name} or None
        return data
    if not isinstance(data, dict):
        return data or None
    key = target.within[depth]
    rest = {other: value for other, value in data.items() if other != key}
    inner = _prune(data.get(key), target, depth + 1)
    return {**rest, key: inner} if inner else rest or None  # last: TOML orders tables by their first mention


def _is_named(item: Any, target: EditTarget) -> bool:
    return isinstance(item, dict) and item.get("name") == target.name


def _is_same(one: Any, other: Any) -> bool:
    """Whether values are equal as JSON: `1`, `1.0` and `true` differ, the order of keys does not matter."""
    return json.dumps(one, sort_keys=True, default=str) == json.dumps(other, sort_keys=True)
