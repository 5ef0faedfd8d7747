"""Finds the first usage in a help text, such as `usage: p [-v] FILE...`."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

_HEADING = re.compile(r"^(\s*(usage|syntax):|.*\.\s+usage:\s*$)\s*", re.IGNORECASE)
_OPTION = re.compile(r"^ {1,10}-\S")
_CONTINUATION = re.compile(r"^ {5,}(?!.*\b([a-z]{2,} ){3})\S|^ +[\[<({|]")


@dataclass(frozen=True, slots=True)
class UsageForm:
    """A usage without the words of the command, and the lines that contain this and other usages."""

    text: str = ""
    start: int = 0
    end: int = 0

    @property
    def is_given(self) -> bool:
        """Whether the help text has a usage."""
        return self.end > 0


def find_usage(lines: Sequence[str], words: Sequence[str]) -> UsageForm:
    """Return the first usage of a help text."""
    names = {os.path.basename(word) for word in words}
    synopsis = re.compile(rf"{re.escape(' '.join([os.path.basename(words[0]), *words[1:]]))} ([\[<{{]|[A-Z]{{2}})")
    start = next((n for n, line in enumerate(lines) if _HEADING.match(line) or synopsis.match(line)), None)
    if start is None:
        return UsageForm()
    first = _HEADING.sub("", lines[start]).strip()
    end = start + 1
    if not first:
        while end < len(lines) and not lines[end].strip():
            end += 1
        first = lines[end].strip() if end < len(lines) else ""
        end += 1
    segments = [first]
    names = {*names, *first.split()[:1]}
    is_first = True
    while end < len(lines):
        line = lines[end]
        is_next = line.split()[:1] in ([name] for name in (*names, "or", "or:"))
        if not (is_next or _CONTINUATION.match(line)) or _OPTION.match(line):
            break
        is_first = is_first and not is_next
        if is_first:
            segments.append(line.strip())
        end += 1
    return UsageForm(_remove_names(" ".join(segments), names), start, end)


def _remove_names(usage: str, names: set[str]) -> str:
    """Remove the name of the program, which may differ from that of its file, and the words of its subcommand."""
    rest = usage.split(" ")
    while rest and (os.path.basename(rest[0]) in names or rest[0] in ("python", "python3", "-m")):
        rest.pop(0)
    if len(rest) == len(usage.split(" ")) and re.fullmatch(r"[a-z][\w.+-]*", rest[0]):
        rest.pop(0)
    while rest and rest[0] in names:
        rest.pop(0)
    return " ".join(rest)


def split_groups(usage: str) -> list[str]:
    """Split a usage at spaces outside of brackets. `...` belongs to the group before it."""
    groups: list[str] = []
    depth, current = 0, ""
    for character in [*usage, " "]:
        depth += (character in "[<({") - (character in "])>}")
        if character != " " or depth > 0:
            current += character
        elif current:
            if current == "..." and groups:
                groups[-1] += current
            else:
                groups.append(current)
            current = ""
    return groups
