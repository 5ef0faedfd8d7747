"""Choices that the user of a terminal makes by typing a key or a label."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Choice:
    """One choice: its value, what the user types and reads, and what else may be typed."""

    value: str
    key: str
    label: str
    words: Sequence[str] = ()

    def __str__(self) -> str:
        return f"{self.key} = {self.label}"


def number_choices(labels: Iterable[tuple[str, str]]) -> list[Choice]:
    """Return choices with the keys 1, 2, 3 … for pairs of a value and its label. The value may be typed as well."""
    return [Choice(value, str(number), label, (value,)) for number, (value, label) in enumerate(labels, start=1)]


def find_choice(choices: Iterable[Choice], typed: str) -> Choice | None:
    """Return the choice with this key, label or word, in upper or lower case."""
    word = typed.strip().casefold()
    for choice in choices:
        if word in (each.casefold() for each in (choice.key, choice.label, *choice.words)):
            return choice
    return None
