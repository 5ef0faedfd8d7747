"""Ranks what may complete a text: what a person most likely means comes first (server/utilities/completion)."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from itertools import islice

MOST = 100
"""How many values one answer may hold, by the specification."""
LONGEST = 1000
"""The most characters of a text to complete, and of a value: longer values are not offered."""
VALUES, CHARACTERS = 10_000, 1_000_000
"""The most values that one request compares, and the most characters of them. Ranking runs on the event loop."""
_EXACT, _PREFIX, _WORD, _INSIDE, _SCATTERED, _RANKS = range(6)


def ranked(values: Iterable[str], typed: str, *, limit: int = MOST) -> tuple[list[str], int]:
    """At most `limit` of the values that fit what was typed, best first, and how many fit in all.

    Exact ones, then those that begin with it, that have a word which begins with it, that have it inside, and last
    those that have its letters in this order. Case and accents do not count, equal values count once, and within a
    rank the given order stays; so it does when nothing was typed. Values longer than `LONGEST`, and those after the
    first `VALUES` or `CHARACTERS`, are left out.
    """
    distinct = dict.fromkeys(_take_bounded(values))
    wanted = _folded(typed)
    if not wanted:
        return list(distinct)[:limit], len(distinct)
    ranks: list[list[str]] = [[] for _ in range(_RANKS)]
    for value in distinct:
        rank = _rank(_folded(value), wanted)
        if rank is not None:
            ranks[rank].append(value)
    fitting = [value for rank in ranks for value in rank]
    return fitting[:limit], len(fitting)


def _rank(value: str, wanted: str) -> int | None:
    if value == wanted:
        return _EXACT
    place = value.find(wanted)
    if place == 0:
        return _PREFIX
    if place < 0:
        letters = iter(value)
        return _SCATTERED if all(letter in letters for letter in wanted) else None
    while place > 0:
        if not value[place - 1].isalnum():
            return _WORD
        place = value.find(wanted, place + 1)
    return _INSIDE


def _take_bounded(values: Iterable[str]) -> Iterator[str]:
    left = CHARACTERS
    for value in islice(values, VALUES):
        if len(value) <= LONGEST:
            left -= len(value)
            if left < 0:
                return
            yield value


def _folded(text: str) -> str:
    """Without case and accents: é, É and e are one letter.

    At most `LONGEST` characters: the compatibility decomposition of one character, U+FDFA, has 18.
    """
    if text.isascii():
        return text[:LONGEST].lower()
    letters = unicodedata.normalize("NFKD", text[:LONGEST].casefold())[:LONGEST]
    return "".join(letter for letter in letters if not unicodedata.combining(letter))
