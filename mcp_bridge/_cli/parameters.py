"""Arguments and options as data, and a parser for plain command lines, because importing typer takes 100 ms."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

T = TypeVar("T")
_EXPANDED = frozenset("*?[~$%")
"""Characters of words that typer expands on Windows, where shells do not."""


class Argument:
    """An argument, as the annotation of a field. The settings are those of `typer.Argument`."""

    def __init__(self, **settings: Any) -> None:
        self.names: tuple[str, ...] = ()
        self.settings = settings


class Option:
    """An option, as the annotation of a field: its names, by default that of the field, and settings of typer."""

    def __init__(self, *names: str, **settings: Any) -> None:
        self.names = names
        self.settings = settings


def parse_arguments(options: type[T], words: Sequence[str]) -> T | None:
    """Parse the command line of options that are texts, paths and flags.

    Returns None for what only typer parses: words that begin with `-` and are no option, values that do or are empty,
    and too many arguments.
    """
    if sys.platform == "win32" and not _EXPANDED.isdisjoint("".join(words)):
        return None
    hints = get_type_hints(options, include_extras=True)
    arguments = [field for field, hint in hints.items() if isinstance(get_args(hint)[1], Argument)]
    named = {name: (field, flag) for field, hint in hints.items() for name, flag in _list_names(field, hint)}
    texts: dict[str, str] = {}
    flags: dict[str, bool] = {}
    rest = iter(words)
    for word in rest:
        name, equals, text = word.partition("=")
        field, flag = named.get(name, ("", None))
        if not field:
            if not arguments:
                return None
            texts[arguments.pop(0)] = word
        elif flag is None:
            texts[field] = text if equals else next(rest, "")
        elif equals:
            return None
        else:
            flags[field] = flag
    if any(not text or text.startswith("-") for text in texts.values()):
        return None
    return options(**flags, **{field: _convert_text(text, hints[field]) for field, text in texts.items()})


def _list_names(field: str, hint: Any) -> Iterator[tuple[str, bool | None]]:
    """List the names of an option, with the value that a flag has by this name."""
    kind, parameter = get_args(hint)
    if isinstance(parameter, Option):
        is_flag = bool in (kind, *get_args(kind))
        for names in parameter.names or (f"--{field.replace('_', '-')}",):
            name, _, negative = names.partition("/")
            yield name, is_flag or None
            if negative:
                yield negative, False


def _convert_text(text: str, hint: Any) -> Any:
    kind = get_args(hint)[0]
    return Path(text) if Path in (kind, *get_args(kind)) else text
