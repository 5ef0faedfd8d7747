"""What an edit changes, as a person is shown it: whole lines, and in them nothing but words that are known."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

MARK = "…"
"""Stands for what is not shown: it may be secret, or is a neighbour's."""
_PLAIN = r"\s\"'{}\[\],:="
"""What stands between words in all formats."""
_RUN = re.compile(rf"(?:[\"']?{MARK}[\"']?[\s,:=]*){{2,}}")
_MOST = 2000
"""Lines of a change; more are not compared one by one."""


def unified(path: Path, old: str, new: str, *, known: Sequence[str] = ()) -> str:
    """The change as a unified diff without context; empty where there is none.

    A word that is not `known` is shown as a mark: a changed line may have a neighbour or a comment in it.
    """
    if old == new:
        return ""
    before, after = _lines(old), _lines(new)
    start = _alike(before, after)
    most = min(len(before), len(after)) - start
    end = min(_alike(before[::-1], after[::-1]), most)
    words = _words(known)
    shown = [f"--- {path}", f"+++ {path}"]
    for gone, come in _changes(before[start : len(before) - end], after[start : len(after) - end]):
        shown.append(f"@@ -{_place(gone, start)} +{_place(come, start)} @@")
        shown += [f"-{_masked(before[start + at], words)}" for at in gone]
        shown += [f"+{_masked(after[start + at], words)}" for at in come]
    return "\n".join(shown) + "\n"


def _lines(text: str) -> list[str]:
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines both begin with."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (line, its) in enumerate(pairs) if line != its), min(len(one), len(other)))


def _changes(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[range, range]]:
    """The lines that go, and those that come in their place."""
    if len(old) + len(new) > _MOST:
        yield range(len(old)), range(len(new))
        return
    for action, start, end, new_start, new_end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if action != "equal":
            yield range(start, end), range(new_start, new_end)


def _place(lines: range, start: int) -> str:
    return f"{start + lines.start + 1},{len(lines)}"


def _words(known: Sequence[str]) -> re.Pattern[str]:
    """All words of a line, the known ones, however JSON spells them, in the group of that name."""
    spelled = {form for word in known for form in (word, json.dumps(word)[1:-1], json.dumps(word, ensure_ascii=False))}
    forms = sorted({form.strip('"') for form in spelled} - {""}, key=len, reverse=True)
    either = "|".join(map(re.escape, forms)) or r"(?!)"
    return re.compile(rf"(?<![^{_PLAIN}])(?P<known>{either})(?![^{_PLAIN}])|[^{_PLAIN}]+")


def _masked(line: str, words: re.Pattern[str]) -> str:
    def shown(found: re.Match[str]) -> str:
        word = found.group()
        return word if found["known"] is not None or not any(map(str.isalnum, word)) else MARK

    return _RUN.sub(MARK, words.sub(shown, line))
