"""Reads, inserts, replaces and removes one entry of a text; every other byte stays as it is.

The texts are files of users and of other programs. Writing them anew would lose comments, order and layout, so each
edit changes the fewest bytes, and proves that it is right before anyone sees the new text:

1. `_parse_text` rejects texts whose lines or values readers disagree about, and parses the others to a tree with the
   position of each value (`syntax.Node`).
2. `_find_entry` follows the keys of the target to the container and the entry, as far as they exist.
3. The syntax (`json_syntax`, `yaml_syntax`, `toml_syntax`) inserts, replaces or removes the text of the entry, in the
   layout of its neighbours.
4. The new text is parsed again. The entry must have the wanted value, and all other data and comments must be those of
   the old text (`_check_rest`). An added entry must also be removable.

A `Change` describes an edit, so that it can be reverted later: byte for byte, unless the entry has changed since.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._settings.documents.positions import KeyPath, format_key_path
from mcp_bridge._settings.documents.syntax import (
    BY_HAND,
    EditTarget,
    EntryPath,
    Format,
    Member,
    SourceText,
    UnsafeEdit,
    get_line_number,
    make_unsafe_error,
)

MAX_READ: Mapping[Format, int] = {"json": 64 << 20, "jsonc": 4 << 20, "yaml": 1 << 18, "toml": 1 << 20}
"""The maximum number of characters of a text that is only read. The parser of YAML is written in Python, and slow."""
MAX_EDITED: Mapping[Format, int] = {**MAX_READ, "json": 4 << 20, "yaml": 1 << 16}
"""The maximum number of characters of a text that is edited, for which the positions of its values are needed too."""

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
    data = _check_value(value, target)
    with _convert_errors():
        source = _parse_text(format, text, MAX_EDITED, target)
        path = _find_entry(source, target)
        if path.entry is None:
            new_text = source.insert(path, target, data)
        elif _is_same(path.data, data):
            return text
        else:
            new_text = source.replace(path.entry, target, data)
        new_source = _parse_again(format, new_text, target)
        new_path = _find_entry(new_source, target)
        if new_path.entry is None or not _is_same(new_path.data, data):
            raise make_unsafe_error("the edited text would not have the entry", where=target.where)
        _check_rest(source, path.entry, new_source, new_path.entry, target)
    if path.entry is None:
        try:
            remove_entry(format, new_text, within, name, listed=listed)
        except UnsafeEdit:
            raise make_unsafe_error("the entry could be added, but not be removed again", where=target.where) from None
    return new_text


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
        new_source = _parse_again(format, source.remove(path), target)
        if _find_entry(new_source, target).entry is not None:
            raise make_unsafe_error("the edited text would still have the entry", where=target.where)
        _check_rest(source, path.entry, new_source, None, target)
    return new_source.text


def describe_change(
    format: Format, old: str, new: str, within: Sequence[str], name: str, *, listed: bool = False
) -> Change:
    """Describe the change between two texts that differ in the entry `name` of the new one.

    Raises UnsafeEdit if that cannot be read. The error has no path: set it.
    """
    target = EditTarget(within=tuple(within), name=name, listed=listed)
    with _convert_errors():
        old_path = _find_entry(_parse_text(format, old, MAX_EDITED, target), target)
        path = _find_entry(_parse_text(format, new, MAX_EDITED, target), target)
    if path.entry is None:
        raise make_unsafe_error("there is no such entry", where=target.where)
    # The change covers the entry in both texts, and all characters around it that differ. `tail` is the number of
    # characters after it.
    start = path.entry.start
    tail = len(new) - path.entry.end
    if old_path.entry is not None:
        start = min(start, old_path.entry.start)
        tail = min(tail, len(old) - old_path.entry.end)
    start = min(start, _count_equal_characters(old, new))
    tail = min(tail, _count_equal_characters(old[start:][::-1], new[start:][::-1]))
    change: dict[str, Any] = {
        "old": old[start : len(old) - tail],
        "before": path.entry.start - start,
        "after": len(new) - tail - path.entry.end,
        "digest": _compute_digest(new[start : len(new) - tail]),
        "alone": len(path.containers[-1].members) == 1,
    }
    if old_path.entry is not None:
        change["value"] = old_path.data
    return change


def revert_change(
    format: Format, text: str, within: Sequence[str], name: str, change: Change, *, listed: bool = False
) -> str:
    """Return the text as it was before the change of the entry `name`.

    If the entry, or the text that was written with it, has changed since, other bytes may differ: the entry is removed,
    or gets its former data.

    Raises UnsafeEdit if the text cannot be edited without risk. The error has no path: set it.
    """
    target = EditTarget(within=tuple(within), name=name, listed=listed)
    value = change.get("value")
    with contextlib.suppress(UnsafeEdit), _convert_errors():
        source = _parse_text(format, text, MAX_EDITED, target)
        path = _find_entry(source, target)
        piece = _find_changed_piece(text, path, change)
        if piece is not None:
            old_text: str = text[: piece.start] + change["old"] + text[piece.stop :]
            old_source = _parse_text(format, old_text, MAX_EDITED, target)
            old_path = _find_entry(old_source, target)
            _check_rest(source, path.entry, old_source, old_path.entry, target)
            if _is_same(old_path.data, value) and (old_path.entry is None) == (value is None):
                return old_text
    if isinstance(value, Mapping):
        return put_entry(format, text, within, name, value, listed=listed)
    return remove_entry(format, text, within, name, listed=listed)


def has_other_content(format: Format, text: str, opening: str) -> bool:
    """Return whether a text has more than empty containers and what a new file begins with (`opening`).

    Raises UnsafeEdit for an invalid text. The error has no path: set it.
    """
    with _convert_errors():
        source = _parse_text(format, text, MAX_READ)
        opening_data = _parse_text(format, opening, MAX_READ).data or {}
    if source.comments or (format in {"yaml", "toml"} and "#" in text):
        return True
    data = source.data or {}
    return any(_has_scalar(value) for key, value in data.items() if opening_data.get(key) != value)


def _has_scalar(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_scalar, value.values()))
    if isinstance(value, list):
        return any(map(_has_scalar, value))
    return value is not None


def _find_changed_piece(text: str, path: EntryPath, change: Change) -> range | None:
    """Return the position of the text of a change, or None if the text has changed since."""
    # The change is from a file, so its types are checked.
    types = {"old": str, "before": int, "after": int}
    if path.entry is None or not all(isinstance(change.get(key), type_) for key, type_ in types.items()):
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


def _count_equal_characters(first: str, second: str) -> int:
    """Count how many characters both begin with."""
    shorter = min(len(first), len(second))
    return next((index for index in range(shorter) if first[index] != second[index]), shorter)


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
    carriage_return = re.search(r"\r(?!\n)", text)
    if carriage_return is not None and format in {"yaml", "toml"}:
        # Readers of these formats disagree whether it ends a line.
        line = get_line_number(text, carriage_return.start())
        raise make_unsafe_error("a carriage return without a line feed", line=line)
    if format == "yaml":
        from mcp_bridge._settings.documents.yaml_syntax import check_editable

        check_editable(text)
    if target is None:
        return parse_source(format, text)
    # The tree has to contain the members of the entry: one level for the container, and one for the entry.
    return parse_source(format, text, depth=len(target.within) + 2)


def parse_source(format: Format, text: str, *, depth: int | None = None, strict: bool = False) -> SourceText:
    """Parse a text. Only the parser of its format is imported, because importing ruamel.yaml takes 20 ms."""
    if format == "toml":
        from mcp_bridge._settings.documents.toml_syntax import TomlText

        return TomlText(text)
    if format == "yaml":
        from mcp_bridge._settings.documents.yaml_syntax import YamlText

        return YamlText(text, strict=strict)
    from mcp_bridge._settings.documents.json_syntax import JsonText

    return JsonText(text, allow_comments=format == "jsonc", depth=depth)


def _parse_again(format: Format, text: str, target: EditTarget) -> SourceText:
    """Parse an edited text. It may be invalid: an alias, for example, may have lost its anchor."""
    try:
        return _parse_text(format, text, {**MAX_READ, format: len(text)}, target)
    except ConfigError:
        problem = "the edit would break the file"
        if format == "toml":
            # An inline table, for example, cannot get another entry.
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
    where = ".".join(target.within) or "the whole file"
    if target.listed:
        source.check_container(node, "list", where)
        items = zip(node.members, data or [], strict=True)
        matches = [(member, item) for member, item in items if _is_named(item, target)]
    else:
        source.check_container(node, "mapping", where)
        matches = [(member, data[target.name]) for member in node.members if member.key == target.name]
    entry = _get_only_member(source, [member for member, _ in matches], target.name)
    return EntryPath(containers=containers, members=members, entry=entry, data=matches[0][1] if matches else None)


def _get_only_member(source: SourceText, members: Sequence[Member], name: str) -> Member | None:
    if len(members) > 1:
        raise make_unsafe_error(f"'{name}' occurs there twice", line=get_line_number(source.text, members[1].start))
    if members and members[0].is_marked:
        line = get_line_number(source.text, members[0].start)
        raise make_unsafe_error("an anchor, an alias or a tag", line=line, where=name)
    return members[0] if members else None


def _check_value(value: Mapping[str, Any], target: EditTarget) -> dict[str, Any]:
    """Return the entry as JSON data, with its name in it if it is an item of a list."""
    if target.listed:
        value = {"name": target.name, **value}
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        f"{text}{target.where}".encode()
    except (TypeError, ValueError, RecursionError):
        raise make_unsafe_error("the entry is not JSON data", where=target.where) from None
    data: dict[str, Any] = json.loads(text)
    return data


def _check_rest(
    before: SourceText, old: Member | None, after: SourceText, new: Member | None, target: EditTarget
) -> None:
    """Raise UnsafeEdit unless both texts have the same data and comments, except the entry and its empty containers."""
    old_data = json.dumps(_prune(before.data, target), default=repr)
    new_data = json.dumps(_prune(after.data, target), default=repr)
    if old_data != new_data or _list_other_comments(before, old) != _list_other_comments(after, new):
        raise make_unsafe_error("the edit would change something else", where=target.where)


def _list_other_comments(source: SourceText, entry: Member | None) -> Sequence[str]:
    inside = range(entry.start, entry.end) if entry else range(0)
    return [source.text[start:end] for start, end in source.comments if start not in inside]


def _prune(data: Any, target: EditTarget, depth: int = 0) -> Any:
    """Return the data without the entry, and without empty containers on the path to it."""
    if depth == len(target.within):
        if target.listed and isinstance(data, list):
            return [item for item in data if not _is_named(item, target)] or None
        if not target.listed and isinstance(data, dict):
            return {key: value for key, value in data.items() if key != target.name} or None
        return data
    if not isinstance(data, dict):
        return data or None
    key = target.within[depth]
    pruned = {name: value for name, value in data.items() if name != key}
    inner = _prune(data.get(key), target, depth + 1)
    if inner:
        # The key is the last one, because TOML orders tables by their first mention.
        pruned[key] = inner
    return pruned or None


def _is_named(item: Any, target: EditTarget) -> bool:
    return isinstance(item, dict) and item.get("name") == target.name


def _is_same(first: Any, second: Any) -> bool:
    """Return whether values are equal as JSON: `1`, `1.0` and `true` differ, the order of keys does not matter."""
    return json.dumps(first, sort_keys=True, default=str) == json.dumps(second, sort_keys=True)


def find_lost_content(format: Format, before: str, after: str, *, entry: Sequence[str]) -> str | None:
    """Describe the first value or comment of `before` that `after` lacks; None if it lacks nothing.

    Additions, and changes at the key path `entry`, are ignored. Raises ConfigError for invalid texts.
    """
    old, new = parse_source(format, before), parse_source(format, after)
    place = _find_lost_value(old.data, new.data, (), tuple(entry))
    if place is not None:
        return f"removed or changed '{format_key_path(place)}'"
    if Counter(_list_comments(format, old)) - Counter(_list_comments(format, new)):
        return "removed a comment"
    return None


def _find_lost_value(old: Any, new: Any, place: KeyPath, entry: KeyPath) -> KeyPath | None:
    # An empty file has nothing to lose.
    if place == entry or (old is None and not place):
        return None
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key, value in old.items():
            inner = (*place, str(key))
            if inner != entry and key not in new:
                return inner
            path = _find_lost_value(value, new.get(key), inner, entry)
            if path is not None:
                return path
        return None
    return None if json.dumps(old, default=str) == json.dumps(new, default=str) else place


def _list_comments(format: Format, source: SourceText) -> Sequence[str]:
    if format == "toml":
        from mcp_bridge._settings.documents.toml_syntax import list_comments

        return list_comments(source.text)
    return [source.text[start:end] for start, end in source.comments]
