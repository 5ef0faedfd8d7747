"""Reads, inserts, replaces and removes one entry of a text; every other byte stays as it is."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from mcp_bridge.documents.edit import Edit, Format, Target, Undo, Unsafe, unsafe

__all__ = ["Edit", "Unsafe", "drop", "put", "read"]

READ: Mapping[Format, int] = {"json": 64 << 20, "jsonc": 4 << 20, "yaml": 1 << 18, "toml": 1 << 20}
"""Characters that a text may have; the parsers of YAML and TOML are written in Python, and slow."""
EDITED: Mapping[Format, int] = {**READ, "json": 4 << 20, "yaml": 1 << 16}
"""The same for an edit, which parses six times: some seconds, and for JSON eighty times the memory of the text."""

_BLANK = re.compile(r"[ \t\r\n]*(?:\{[ \t]*\}|\[[ \t]*\]|null|Null|NULL|~)?")


def read(format: Format, text: str) -> Any:
    """The text as plain data; None for a text with nothing in it (TOML: an empty table).

    Raises ConfigError with the line where the text is not what its format says. The error knows no path: set it.
    """
    _look(format, text, READ)
    with _no_deeper():
        return _module(format).read(text, format)


def put(
    format: Format,
    text: str,
    within: Sequence[str],
    name: str,
    value: Mapping[str, Any],
    *,
    listed: bool = False,
    known_by: str = "name",
    undo: Undo | None = None,
) -> Edit:
    """The text with `value` as the entry `name` in the container that the keys `within` lead to.

    A missing container is made; `listed` says that it is a list whose items have their name under `known_by`. An
    entry of that name gets the new value in the place of the old one, and `undo`, that of the put which made it,
    stays its undo (`{}` without: then `drop` takes the entry alone). One that is the same leaves the text as it is.

    Raises Unsafe where the text cannot be edited without risk. The error knows no path: set it.
    """
    _look(format, text, EDITED)
    target = Target(within=tuple(within), name=name, listed=listed, known_by=known_by)
    wanted = _plain(value, target)
    with _no_deeper():
        edit: Edit = _module(format).put(text, target, wanted, format)
    if edit.text == text or edit.undo.get("replaced"):
        return Edit(text=edit.text, undo=dict(undo or {}))
    back = drop(format, edit.text, within, name, listed=listed, known_by=known_by, undo=edit.undo)
    if back != text:
        raise unsafe("the entry could be put in, but not be taken out again without a trace", where=target.where)
    return edit


def drop(
    format: Format,
    text: str,
    within: Sequence[str],
    name: str,
    *,
    listed: bool = False,
    known_by: str = "name",
    undo: Undo | None = None,
) -> str:
    """The text without the entry; with the `undo` of its put, also without what was made for it, where that is empty.

    A text without such an entry stays as it is. Without `undo`, containers stay.

    Raises Unsafe where the text cannot be edited without risk. The error knows no path: set it.
    """
    _look(format, text, EDITED)
    target = Target(within=tuple(within), name=name, listed=listed, known_by=known_by)
    with _no_deeper():
        dropped: str = _module(format).drop(text, target, _sound(undo), format)
    return dropped


def _module(format: Format) -> ModuleType:
    """The module that edits the format; imported late, because each has its own parser."""
    if format == "yaml":
        from mcp_bridge.documents import yaml_editor

        return yaml_editor
    if format == "toml":
        from mcp_bridge.documents import toml_editor

        return toml_editor
    from mcp_bridge.documents import json_editor

    return json_editor


def _look(format: Format, text: str, bounds: Mapping[Format, int]) -> None:
    """Refuse what no parser should be given."""
    if len(text) > bounds[format]:
        raise unsafe(f"larger than {bounds[format] >> 10} KiB")
    if "\0" in text:
        raise unsafe("a NUL character", line=text.count("\n", 0, text.index("\0")) + 1)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise unsafe("half of a surrogate pair", line=text.count("\n", 0, error.start) + 1) from None


@contextlib.contextmanager
def _no_deeper() -> Iterator[None]:
    try:
        yield
    except RecursionError:
        raise unsafe("nested too deeply") from None


def _sound(undo: Undo | None) -> Undo | None:
    """The undo without anything that no put has written: it comes from a file, and parts of it go into another."""
    if undo is None:
        return None
    kept = {key: undo[key] for key in ("inside", "held", "before") if _is_blank(undo.get(key))}
    created, root = undo.get("created"), undo.get("root")
    if isinstance(created, int) and created >= 0:
        kept["created"] = created
    if _is_blank(root) or (isinstance(root, list) and len(root) == 2 and all(map(_is_blank, root))):
        kept["root"] = root
    return kept


def _is_blank(text: Any) -> bool:
    """Text that says nothing: white space, an empty pair of brackets, null."""
    return isinstance(text, str) and _BLANK.fullmatch(text) is not None


def _plain(value: Mapping[str, Any], target: Target) -> dict[str, Any]:
    """The entry as JSON data, its name in it where it stands in a list."""
    named = {target.known_by: target.name, **value} if target.listed else value
    try:
        text = json.dumps(named, allow_nan=False, ensure_ascii=False)
        f"{text}{target.where}".encode()
    except (TypeError, ValueError, RecursionError):
        raise unsafe("the entry is not JSON data", where=target.where) from None
    plain: dict[str, Any] = json.loads(text)
    return plain
