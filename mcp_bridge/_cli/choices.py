"""Choices of a user at a terminal, who types a key or a label."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Choice:
    """One choice: its value, its key and label, and other words for it."""

    value: str
    key: str
    label: str
    words: Sequence[str] = ()

    def __str__(self) -> str:
        return f"{self.key} = {self.label}"


def number_choices(labels: Iterable[tuple[str, str]]) -> list[Choice]:
    """Return choices with the keys 1, 2, 3 … for pairs of a value and its label. Users may also type the value."""
    return [Choice(value, str(number), label, (value,)) for number, (value, label) in enumerate(labels, start=1)]


def find_choice(choices: Iterable[Choice], text: str) -> Choice | None:
    """Return the choice with this key, label or word, in upper or lower case."""
    text = text.strip().casefold()
    for choice in choices:
        if text in (word.casefold() for word in (choice.key, choice.label, *choice.words)):
            return choice
    return None
