"""Formats the help of commands and groups: with plain metavars and whole sentences, and the commands in sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from typer.core import TyperArgument, TyperCommand, TyperGroup

_MAX_SENTENCE = 10_000
"""The maximum length of the help of a command in a group. It is so large that no sentence is truncated."""


class PlainCommand(TyperCommand):
    """A command with the metavars of its arguments in its help, without the names of Python types."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words after the name of the command: options, then arguments."""
        words = ["[OPTIONS]"]
        for parameter in self.get_params(ctx):
            if isinstance(parameter, TyperArgument):
                metavar = _get_metavar(parameter)
                words.append(metavar if parameter.required or metavar.startswith("[") else f"[{metavar}]")
        return words

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, and then the options."""
        arguments: list[tuple[str, str]] = []
        options: list[tuple[str, str]] = []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if isinstance(parameter, TyperArgument):
                arguments += _list_rows(parameter)
            elif record is not None:
                options.append(record)
        for title, rows in (("Arguments", arguments), ("Options", options)):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


class PlainGroup(TyperGroup):
    """A group with the whole first sentence of each command in its help, in sections."""

    sections: ClassVar[Mapping[str, Sequence[str]]] = {}
    """The commands by the title of their section; others come last."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the sections."""
        remaining = dict.fromkeys(self.list_commands(ctx))
        for title, names in {**self.sections, "Commands": remaining}.items():
            rows: list[tuple[str, str]] = []
            for name in list(names):
                if name in remaining:
                    del remaining[name]
                    rows.append((name, self.commands[name].get_short_help_str(_MAX_SENTENCE)))
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _list_rows(argument: TyperArgument) -> list[tuple[str, str]]:
    """Return the metavar of an argument and its help. Each of several words has a line of the help, `WORD: text`."""
    metavar = _get_metavar(argument)
    text = argument.help or ""
    if " " not in metavar:
        return [(metavar, text)]
    rows: list[tuple[str, str]] = []
    for line in text.splitlines():
        word, _, word_help = line.partition(": ")
        rows.append((word, word_help))
    return rows


def _get_metavar(argument: TyperArgument) -> str:
    return argument.metavar or (argument.name or "").upper()
