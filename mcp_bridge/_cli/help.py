"""The help of commands and groups: plain metavars, whole sentences, commands in sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from typer.core import TyperArgument, TyperCommand, TyperGroup

_LONGEST = 10_000
"""Characters of a sentence, so that none is truncated."""


class PlainCommand(TyperCommand):
    """A command whose help has the metavars of its arguments, without the names of Python types."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words after the name of the command: options, then arguments."""
        arguments = [parameter for parameter in self.get_params(ctx) if isinstance(parameter, TyperArgument)]
        return ["[OPTIONS]", *map(_format_usage, arguments)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, and then the options."""
        arguments: list[tuple[str, str]] = []
        options: list[tuple[str, str]] = []
        for parameter in self.get_params(ctx):
            if isinstance(parameter, TyperArgument):
                arguments += _list_rows(parameter)
            elif (record := parameter.get_help_record(ctx)) is not None:
                options.append(record)
        for title, rows in (("Arguments", arguments), ("Options", options)):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


class PlainGroup(TyperGroup):
    """A group whose help has the whole first sentence of each command, in the sections that it defines."""

    sections: ClassVar[Mapping[str, Sequence[str]]] = {}
    """The commands by the title of their section; others come last."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the sections."""
        rest = [name for name in self.list_commands(ctx) if not any(name in names for names in self.sections.values())]
        for title, names in {**self.sections, "Commands": rest}.items():
            known = [name for name in names if name in self.commands]
            if known:
                with formatter.section(title):
                    formatter.write_dl([(name, self.commands[name].get_short_help_str(_LONGEST)) for name in known])


def _format_usage(argument: TyperArgument) -> str:
    metavar = _get_metavar(argument)
    return metavar if argument.required or metavar.startswith("[") else f"[{metavar}]"


def _list_rows(argument: TyperArgument) -> list[tuple[str, str]]:
    """List the metavar of an argument and its help; several words have a line of help each, `WORD: text`."""
    metavar, text = _get_metavar(argument), argument.help or ""
    if " " not in metavar:
        return [(metavar, text)]
    return [(name, help) for name, _, help in (line.partition(": ") for line in text.splitlines())]


def _get_metavar(argument: TyperArgument) -> str:
    return argument.metavar or (argument.name or "").upper()
