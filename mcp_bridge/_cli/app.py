"""Builds the command line with typer. The module of a command is imported when it runs, so that help stays fast."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Annotated, Any, get_args, get_type_hints

import typer

from mcp_bridge._cli.commands import COMMANDS, GROUPS, Command
from mcp_bridge._cli.groups import DefaultGroup, FormatGroup, RootGroup, ServeCommand, ServerCommand
from mcp_bridge._cli.help import FULL_HELP, PlainCommand, PlainGroup
from mcp_bridge._cli.parameters import Argument
from mcp_bridge._cli.serve_options import ServeOptions
from mcp_bridge._runtime.signatures import get_signature
from mcp_bridge._version import __version__


def _add_commands(group: typer.Typer, commands: Mapping[str, Command]) -> None:
    for name, command in commands.items():
        command_class = PlainCommand
        if command.options is ServeOptions:
            command_class = ServeCommand
        elif hasattr(command.options, "token_env"):
            command_class = ServerCommand
        group.command(name, help=command.options.__doc__, cls=command_class)(_make_callback(command))


def _make_callback(command: Command) -> Callable[..., None]:
    """Make the function for typer, which reads its signature. Its parameters are the fields of the options."""
    module, _, function = command.target.partition(":")

    def run_command(context: typer.Context, **values: Any) -> None:
        target = getattr(import_module(f"mcp_bridge._cli.{module}"), function)
        if command.attribute is None:
            target(command.options(**values))
        else:
            target(command.options(**values), getattr(context, command.attribute))

    hints: dict[str, Any] = {"context": typer.Context}
    for name, hint in get_type_hints(command.options, include_extras=True).items():
        value_type, parameter = get_args(hint)
        if isinstance(parameter, Argument):
            settings = {"metavar": name.upper(), **parameter.settings}
            hints[name] = Annotated[value_type, typer.Argument(**settings)]
        else:
            hints[name] = Annotated[value_type, typer.Option(*parameter.names, **parameter.settings)]
    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY)
    fields = [context, *get_signature(command.options).parameters.values()]
    run_command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [field.replace(kind=field.KEYWORD_ONLY, annotation=hints[field.name]) for field in fields]
    )
    run_command.__annotations__ = hints
    return run_command


app = typer.Typer(
    name="mcp-bridge",
    help="Serve the tools you already have to any MCP client.",
    # With rich, `--help` takes three times as long.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    cls=RootGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_GROUP_CLASSES = {"export": FormatGroup, "import": DefaultGroup, "approvals": DefaultGroup}
_add_commands(app, COMMANDS)
for _name, _group in GROUPS.items():
    _class = _GROUP_CLASSES.get(_name, PlainGroup)
    _typer = typer.Typer(name=_name, cls=_class, help=_group.help, rich_markup_mode=None)
    _add_commands(_typer, _group.commands)
    app.add_typer(_typer)


def _print_version(is_given: bool) -> None:
    if is_given:
        print(f"mcp-bridge {__version__}")
        raise typer.Exit


def _print_full_help(context: typer.Context, is_given: bool) -> None:
    if is_given:
        context.meta[FULL_HELP] = True
        print(context.get_help())
        raise typer.Exit


@app.callback()
def accept_common_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    help_all: Annotated[
        bool, typer.Option("--help-all", callback=_print_full_help, is_eager=True, help="Explain every command.")
    ] = False,
) -> None:
    """Accept the options of every command."""
