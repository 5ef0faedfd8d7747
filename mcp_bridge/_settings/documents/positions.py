"""The position of a value in a file: its key path and its line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

PathStep: TypeAlias = str | int
KeyPath: TypeAlias = tuple[PathStep, ...]
Lines: TypeAlias = dict[KeyPath, int]

MAX_DEPTH = 64
TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels"

_MAX_PATH_TEXT = 200
_PLAIN_KEY = re.compile(r"[\w$-]+")


def format_key_path(where: Sequence[PathStep]) -> str:
    """Format a key path: `sources[0].path`, with unusual keys quoted: `alias["a b"]`."""
    text = ""
    for step in where:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f'["{step[:60]}"]'
    return text if len(text) <= _MAX_PATH_TEXT else f"{text[:_MAX_PATH_TEXT]}…"


def find_nearest_line(lines: Mapping[KeyPath, int], where: Sequence[PathStep]) -> int | None:
    """Return the line of `where`, else of its nearest ancestor with a line."""
    place = tuple(where)
    for end in range(len(place), -1, -1):
        if place[:end] in lines:
            return lines[place[:end]]
    return None


def walk_values(value: Any, place: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Yield every value with its place, parents first, in the order of the file; without recursion."""
    waiting: list[tuple[KeyPath, Any]] = [(place, value)]
    while waiting:
        path, current = waiting.pop()
        yield path, current
        if isinstance(current, dict):
            waiting.extend(((*path, key), item) for key, item in reversed(current.items()))
        elif isinstance(current, list):
            waiting.extend(((*path, index), current[index]) for index in reversed(range(len(current))))
