"""The bases of commands and groups: help in plain metavars and whole sentences, and errors in one style."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from typer.core import TyperArgument, TyperCommand, TyperGroup
from typer.exceptions import TyperException

from mcp_bridge._cli.exits import ExitCode
from mcp_bridge._cli.output import report
from mcp_bridge._cli.usage import check_options, explain_parser_error, make_command_error

FULL_HELP = "mcp_bridge.full_help"
"""The key in the metadata of a context for whether the help describes every command."""
_MAX_SENTENCE = 10_000
"""The maximum length of the help of a command in a group. It is so large that no sentence is truncated."""


class PlainCommand(TyperCommand):
    """A command with the metavars of its arguments in its help, without the names of Python types."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments. Raises ConfigError."""
        check_options(ctx, args, stops_at_word=False)
        try:
            return super().parse_args(ctx, args)
        except TyperException as error:
            raise explain_parser_error(ctx, error) from error

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words after the name of the command: options, then arguments."""
        words = ["[OPTIONS]"]
        for parameter in self.get_params(ctx):
            if isinstance(parameter, TyperArgument):
                metavar = str(parameter.metavar)
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
    """A group with the whole first sentence of each command in its help."""

    everyday: ClassVar[Sequence[str]] = ()
    """The commands that the short help explains. It only names those of the sections."""
    sections: ClassVar[Mapping[str, Sequence[str]]] = {}
    """The other commands, by the title of their section."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options before a command. Without words, print the help and exit with 2. Raises ConfigError."""
        if not args:
            report(ctx.get_help())
            raise SystemExit(ExitCode.USAGE)
        check_options(ctx, args, stops_at_word=True)
        try:
            return super().parse_args(ctx, args)
        except TyperException as error:
            raise explain_parser_error(ctx, error) from error

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return a command. Raises ConfigError with the most similar name."""
        if args[0] not in self.commands:
            raise make_command_error(ctx, args[0])
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, and then the options."""
        if not self.everyday:
            self._write_commands(formatter, "Commands", self.list_commands(ctx))
        else:
            self._write_commands(formatter, "Everyday commands", self.everyday)
            if FULL_HELP in ctx.meta:
                for title, names in self.sections.items():
                    self._write_commands(formatter, title, names)
            else:
                with formatter.section("More commands"):
                    formatter.write_dl([(title, ", ".join(names)) for title, names in self.sections.items()])
        options = [parameter.get_help_record(ctx) for parameter in self.get_params(ctx)]
        with formatter.section("Options"):
            formatter.write_dl([option for option in options if option is not None])

    def _write_commands(self, formatter: Any, title: str, names: Sequence[str]) -> None:
        rows = [(name, self.commands[name].get_short_help_str(_MAX_SENTENCE)) for name in names]
        with formatter.section(title):
            formatter.write_dl(rows)


def _list_rows(argument: TyperArgument) -> list[tuple[str, str]]:
    """Return the metavar of an argument and its help. Each of several words has a line of the help, `WORD: text`."""
    metavar = str(argument.metavar)
    text = argument.help or ""
    if " " not in metavar:
        return [(metavar, text)]
    rows: list[tuple[str, str]] = []
    for line in text.splitlines():
        word, _, word_help = line.partition(": ")
        rows.append((word, word_help))
    return rows
