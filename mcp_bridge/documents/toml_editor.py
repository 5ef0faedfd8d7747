"""One entry of a TOML text: inserted as a table at its end, removed with the tables below it.

Python's parser has no positions, but it tells where statements begin: a text cut there is a whole document, a text
cut in a string or a list is none.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from mcp_bridge.documents.edit import Edit, Target, Undo, Unsafe, lone_return, newline_of, unsafe

_HEADER = re.compile(r"^[ \t]*\[[^\r\n]*", re.MULTILINE)
_QUIET = re.compile(r"[ \t]*(?:#[^\r\n]*)?(?:\r?\n|\Z)")
_LINE_END = re.compile(r"\r?\n")
_HINT = "Mend the file in an editor, then run the command again."
_MAX_DEPTH = 64

Span = tuple[int, int]


def read(text: str, format: str) -> Any:
    """The text's data; dates and times as text. Raises Unsafe with the line."""
    return json.loads(json.dumps(_parse(text), default=str))


def put(text: str, target: Target, value: Mapping[str, Any], format: str) -> Edit:
    """The text with the entry in it. Raises Unsafe."""
    before = _parse(text)
    newline = newline_of(text)
    block = _block(target, value, newline)
    entry = _entry(before, target)
    if entry is None:
        gap = newline if text.strip() and not re.search(r"\n[ \t]*\r?\n\Z", text) else ""
        gap = gap if not text or text.endswith("\n") else newline + gap
        end = newline if not text or text.endswith("\n") else ""
        edit = Edit(text=f"{text}{gap}{block}{end}", undo={"before": gap})
    elif json.dumps(entry, sort_keys=True, default=str) == json.dumps(value, sort_keys=True):
        return Edit(text=text, undo={"replaced": True})
    else:
        first, *others = _tables(text, target)
        edit = Edit(text=_spliced(text, [(first, block), *((span, "") for span in others)]), undo={"replaced": True})
    after = _again(edit.text, target)
    if json.dumps(_entry(after, target), default=str) != json.dumps(value):
        raise unsafe("the edited text would not have the entry", where=target.where)
    _check(before, after, target)
    return edit


def drop(text: str, target: Target, undo: Undo | None, format: str) -> str:
    """The text without the entry, or as it is where there is none. Raises Unsafe."""
    before = _parse(text)
    if _entry(before, target) is None:
        return text
    first, *others = _tables(text, target)
    dropped = text
    for start, end in reversed(others):
        dropped = _cut(dropped, start, end, 0)
    dropped = _cut(dropped, *first, _gap(text[: first[0]], undo))
    _check(before, _again(dropped, target), target)
    return dropped


def _cut(text: str, start: int, end: int, gap: int) -> str:
    """The text without these lines and so much before them; whatever else follows still begins a line."""
    after = _LINE_END.match(text, end)
    head, tail = text[: start - gap], text[after.end() if after else end :]
    if head and tail and not head.endswith("\n") and (line_end := _LINE_END.match(text, start - gap)):
        head = text[: line_end.end()]
    return head + tail


def _gap(head: str, undo: Undo | None) -> int:
    """How much before the entry was put there with it; nobody knows: an empty line."""
    if undo is not None and "before" in undo:
        gap = str(undo["before"])
        return len(gap) if gap and head.endswith(gap) else 0
    found = re.search(r"(?<=\n)[ \t]*\r?\n\Z", head)
    return 0 if found is None else len(found.group())


def _parse(text: str) -> dict[str, Any]:
    line = lone_return(text)
    if line is not None:
        raise unsafe("a carriage return without a line feed", line=line)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"\(at line (\d+), column \d+\)", str(error))
        problem = str(error).split(" (at ")[0]
        raise unsafe(f"not valid TOML: {problem}", line=int(found.group(1)) if found else None, hint=_HINT) from None
    except (ValueError, ArithmeticError):  # a date that the calendar does not have, a number of too many digits
        raise unsafe("not valid TOML: a date or a number that cannot be", hint=_HINT) from None


def _again(text: str, target: Target) -> dict[str, Any]:
    """The data of an edited text, which need not be TOML: an inline table, for example, cannot get another entry."""
    try:
        return _parse(text)
    except Unsafe:
        raise unsafe("the servers are written in a form that a table cannot be added to", where=target.where) from None


def _entry(data: dict[str, Any], target: Target) -> Any:
    """The entry's data, None where there is none."""
    if target.listed:
        raise unsafe("lists of servers are not known in TOML", where=target.where)
    value: Any = data
    for depth, key in enumerate((*target.within, target.name)):
        if not isinstance(value, dict):
            raise unsafe("not a table", where=".".join(target.within[:depth]))
        if key not in value:
            return None
        value = value[key]
    return value


def _block(target: Target, value: Mapping[str, Any], newline: str) -> str:
    """The entry as a table, what is inside it in one line each; without the last line's end."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        path = ".".join(tomlkit.key(key).as_string() for key in (*target.within, target.name))
        lines = [f"{tomlkit.key(key).as_string()} = {_written(inner)}" for key, inner in value.items()]
    except (TOMLKitError, ValueError, TypeError):
        raise unsafe("the entry has something that TOML cannot say", where=target.where) from None
    return newline.join([f"[{path}]", *lines])


def _written(value: Any) -> str:
    """A value in one line."""
    import tomlkit

    if isinstance(value, dict):
        inside = ", ".join(f"{tomlkit.key(key).as_string()} = {_written(inner)}" for key, inner in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    if value is None:
        raise TypeError
    return str(tomlkit.item(value).as_string())


def _tables(text: str, target: Target) -> Sequence[Span]:
    """Where the entry's table and those below it stand, from each header to its last line, without the line's end.

    Raises Unsafe where the entry is written in another way: in one line, or with dotted keys.
    """
    path = [*target.within, target.name]
    found: list[Span] = []
    headers = [(match.start(), _key(match.group())) for match in _HEADER.finditer(text)]
    for number, (start, key) in enumerate(headers):
        if key is None or key[: len(path)] != path or not _is_boundary(text[:start]):
            continue
        stops = [other for other, _ in headers[number + 1 :]] + [len(text)]
        stop = next(stop for stop in stops if _is_boundary(text[start:stop]))
        found.append((start, _last(text, start, stop)))
    if not found:
        raise unsafe("the entry is not a table of its own", where=target.where)
    return found


def _key(header: str) -> list[str] | None:
    """The keys of a table's header, None where it is something else that begins with a bracket."""
    try:
        value: Any = tomllib.loads(header)
    except (tomllib.TOMLDecodeError, RecursionError):
        return None
    keys: list[str] = []
    while value:
        if isinstance(value, list):
            value = value[0]
            continue
        if len(keys) >= _MAX_DEPTH:
            return None
        ((key, value),) = value.items()
        keys.append(key)
    return keys


def _is_boundary(text: str) -> bool:
    """Whether a text that begins with a statement also ends with one."""
    try:
        tomllib.loads(text)
    except (ValueError, ArithmeticError):
        return False
    return True


def _last(text: str, start: int, stop: int) -> int:
    """The end of a table's last line that is neither empty nor a comment."""
    lines = [match.start() for match in re.finditer(r"^", text[start:stop], re.MULTILINE)]
    end = stop
    for line in reversed([start + line for line in lines[1:]]):
        if line < end and not (_QUIET.fullmatch(text, line, end) and _is_boundary(text[start:line])):
            break
        end = line
    return start + len(text[start:end].removesuffix("\n").removesuffix("\r"))


def _spliced(text: str, pieces: Sequence[tuple[Span, str]]) -> str:
    """The text with each span replaced; one that leaves nothing goes with its line's end."""
    parts, at = [], 0
    for (start, end), new in pieces:
        parts += [text[at:start], new]
        line_end = None if new else _LINE_END.match(text, end)
        at = line_end.end() if line_end else end
    return "".join([*parts, text[at:]])


def _check(one: dict[str, Any], other: dict[str, Any], target: Target) -> None:
    """Both have the same data but for the entry, and for tables that are empty without it."""
    if _pruned(one, [*target.within, target.name]) != _pruned(other, [*target.within, target.name]):
        raise unsafe("the edit would change something else", where=target.where)


def _pruned(data: Any, path: Sequence[str]) -> str:
    """The data as text, without the entry and the tables on the way to it that are empty then."""
    return json.dumps(_without(data, path), default=repr)


def _without(data: Any, path: Sequence[str]) -> Any:
    if not isinstance(data, dict) or path[0] not in data:
        return data
    rest = {key: value for key, value in data.items() if key != path[0]}
    inner = _without(data[path[0]], path[1:]) if len(path) > 1 else None
    return {**rest, path[0]: inner} if inner else rest
