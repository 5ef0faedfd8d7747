"""Describes arguments and options as data, and parses plain command lines.

The commands of typer are made from the same data. But importing typer takes 100 ms, so `serve` parses its arguments
here if they are plain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

from mcp_bridge._runtime.platform import system

T = TypeVar("T")


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
    """Parse a command line whose options are texts, paths, numbers and flags.

    Return None if only typer can parse it, or report its error: if a value is empty or begins with `-`, an option is
    unknown, or there are too many arguments.
    """
    # On Windows, typer expands words with these characters, so it has to parse them.
    if not system.EXPANDED_CHARACTERS.isdisjoint("".join(words)):
        return None
    hints = get_type_hints(options, include_extras=True)
    arguments = [field for field, hint in hints.items() if isinstance(get_args(hint)[1], Argument)]
    options_by_name: dict[str, tuple[str, bool | None]] = {}
    for field, hint in hints.items():
        options_by_name.update((name, (field, flag)) for name, flag in list_names(field, hint))
    texts: dict[str, str] = {}
    flags: dict[str, bool] = {}
    remaining = iter(words)
    for word in remaining:
        name, equals, text = word.partition("=")
        field, flag = options_by_name.get(name, ("", None))
        if not field:
            if not arguments:
                return None
            texts[arguments.pop(0)] = word
        elif flag is None:
            texts[field] = text if equals else next(remaining, "")
        elif equals:
            return None
        else:
            flags[field] = flag
    if any(not text or text.startswith("-") for text in texts.values()):
        return None
    values: dict[str, Any] = {**flags, **texts}
    for field, text in texts.items():
        values[field] = _convert_text(text, hints[field])
    if None in values.values():
        return None
    return options(**values)


def _convert_text(text: str, hint: Any) -> Any:
    """Return the value for a text, or None for an invalid number."""
    value_type, parameter = get_args(hint)
    types = (value_type, *get_args(value_type))
    if Path in types:
        return Path(text)
    if int not in types:
        return text
    if text.isdecimal() and parameter.settings["min"] <= int(text) <= parameter.settings["max"]:
        return int(text)
    return None


def list_names(field: str, hint: Any) -> Iterator[tuple[str, bool | None]]:
    """Yield each name of an option, with the value that this name gives to a flag, or None for other types."""
    value_type, parameter = get_args(hint)
    if isinstance(parameter, Argument):
        return
    is_flag = bool in (value_type, *get_args(value_type))
    for names in parameter.names or (f"--{field.replace('_', '-')}",):
        name, _, negative = names.partition("/")
        yield name, True if is_flag else None
        if negative:
            yield negative, False
