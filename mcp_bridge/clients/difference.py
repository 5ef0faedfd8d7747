"""What an edit changes, as a person is shown it: its own lines, and nothing of what stands beside them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MARK = "…"
"""Stands for what is in a changed line and not part of the change: neighbours may hold secrets."""
_TEXT = re.compile(r'"[^"\\\n]*"')


def unified(path: Path, old: str, new: str, *, hidden: Sequence[str] = (), known: Sequence[str] = ()) -> str:
    """The change as a unified diff without context; empty where there is none.

    Of a line that is changed in part, only that part is shown, unless all texts in it are `known`; nothing of what is
    replaced, nor what is `hidden`.
    """
    if old == new:
        return ""
    before = _common_start(old, new)
    after = _common_end(old, new, before)
    before, after = _to_line(old, new, before, after)
    if min(len(old), len(new)) - before - after:
        before, after = _whole_lines(new, before, after, known)
    gone, come = old[before : len(old) - after], new[before : len(new) - after]
    gone = _masked(MARK if gone and come else gone, hidden)
    head = MARK if before and old[before - 1] != "\n" else ""
    tail = MARK if after and old[len(old) - after - 1 : len(old) - after] != "\n" and _opens(old, after) else ""
    removed, added = _lines("-", head, gone, tail), _lines("+", head, come, tail)
    first = old.count("\n", 0, before) + 1
    place = f"@@ -{_range(first, len(removed))} +{_range(first, len(added))} @@"
    return "\n".join([f"--- {path}", f"+++ {path}", place, *removed, *added]) + "\n"


def strings(value: Any) -> Sequence[str]:
    """All texts in a value, but for keys."""
    if isinstance(value, str):
        return (value,)
    if isinstance(value, Mapping):
        value = list(value.values())
    return tuple(text for item in value for text in strings(item)) if isinstance(value, Sequence) else ()


def _common_start(old: str, new: str) -> int:
    return len(os.path.commonprefix((old, new)))  # noqa: RUF071 - characters are what is meant


def _common_end(old: str, new: str, before: int) -> int:
    """How many characters both end with that are not among the first `before`."""
    most = min(len(old), len(new)) - before
    return _common_start(old[::-1][:most], new[::-1][:most])


def _to_line(old: str, new: str, before: int, after: int) -> tuple[int, int]:
    """The same change begun at the start of a line, where something is put in or taken out whole.

    An insertion between two equal texts can stand in more than one place; only equal characters change sides.
    """
    longer = new if len(new) > len(old) else old
    if min(len(old), len(new)) - before - after:
        return before, after
    start, end = before, len(longer) - after
    while start and longer[start - 1] != "\n" and longer[start - 1] == longer[end - 1]:
        start, end = start - 1, end - 1
    if start and longer[start - 1] != "\n":
        return before, after
    return start, len(longer) - end


def _whole_lines(new: str, before: int, after: int, known: Sequence[str]) -> tuple[int, int]:
    """The same change with all of its lines, where there is nothing in these but what is known."""
    start = new.rfind("\n", 0, before) + 1
    end = new.find("\n", len(new) - after)
    end = end if end >= 0 else len(new)
    texts = _TEXT.findall(new[start:end])
    words = re.findall(r"\w+", _TEXT.sub(" ", new[start:end]))
    if {*(text[1:-1] for text in texts), *words} <= {*known}:
        return start, len(new) - end
    return before, after


def _opens(old: str, after: int) -> bool:
    """Whether what follows the change begins within a line."""
    return old[len(old) - after] not in "\r\n"


def _masked(text: str, hidden: Sequence[str]) -> str:
    for secret in sorted(filter(None, hidden), key=len, reverse=True):
        for spelled in (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
            text = text.replace(spelled, MARK)
    return text


def _lines(sign: str, head: str, text: str, tail: str) -> list[str]:
    whole = head if head and not text.strip(MARK) else head + text + tail
    return [f"{sign}{line}" for line in whole.rstrip("\n").split("\n")] if whole else []


def _range(first: int, count: int) -> str:
    return f"{first},{count}"
