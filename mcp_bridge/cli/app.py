"""The commands and their options. Each body imports what it needs, so that `--help` costs nothing."""

from __future__ import annotations

import sys
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mcp_bridge._version import __version__
from mcp_bridge.cli import approvals_app, clients_app, export_app, module_app
from mcp_bridge.cli.exits import Exit, LastExitHandler, errors_for_people, leave

app = typer.Typer(
    name="mcp-bridge",
    help="Give the tools you already have to any MCP client.",
    rich_markup_mode=None,  # with rich, --help costs three times as much
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(export_app.app)
app.add_typer(module_app.app)
app.add_typer(approvals_app.app)
clients_app.add_to(app)

if TYPE_CHECKING:
    from mcp_bridge.runtime.supervisor import Supervisor

WHAT = "A Python file, a folder of them, or settings (YAML, JSON, TOML). Default: mcp-bridge.yaml or tools.py here."
File = Annotated[Path | None, typer.Argument(help=WHAT, show_default=False)]
FileOption = Annotated[Path | None, typer.Option("--file", "-f", help=WHAT, show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print the whole answer as JSON on stdout.")]
Level = Annotated[str, typer.Option("--log-level", help="debug, info, warning, error or critical.")]
LogFile = Annotated[Path | None, typer.Option("--log-file", help="Log to this file too; it is rotated at 5 MB.")]


def run(guard: Supervisor | None = None) -> None:
    """Run the command line. Data that the terminal's encoding lacks is spelled out; tools' threads hold nobody.

    `guard` is the one that stands around this process already.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    last_handler = LastExitHandler()
    code: int | str | None = Exit.OK
    try:
        with errors_for_people():
            app(obj=guard)
    except SystemExit as end:
        code = end.code
    leave(int(code or Exit.OK), last_handler)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"mcp-bridge {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of every command."""


@app.command()
def serve(
    context: typer.Context,
    file: File = None,
    http: Annotated[
        str | None,
        typer.Option(
            metavar="[HOST:]PORT",
            help="Serve over HTTP there instead of stdio; `settings` for the address in the file.",
        ),
    ] = None,
    token_env: Annotated[
        str | None, typer.Option(metavar="NAME", help="HTTP clients must send the bearer token in this variable.")
    ] = None,
    reload: Annotated[bool, typer.Option("--reload", help="Import edited files again, and tell the clients.")] = False,
    guard: Annotated[
        bool | None,
        typer.Option(
            "--guard/--no-guard",
            help="Keep two small processes that end whatever tools leave behind; Linux only. Default: where possible.",
            show_default=False,
        ),
    ] = None,
    log_level: Level = "warning",
    log_file: LogFile = None,
) -> None:
    """Serve tools to MCP clients: over stdio, or over HTTP with --http."""
    from mcp_bridge.cli.serving import Wishes, over

    wishes = Wishes(http=http, token_env=token_env, reload=reload, level=log_level, log_file=log_file, guard=guard)
    over(file, wishes, context.obj)


@app.command("list")
def list_tools(
    file: File = None,
    as_json: AsJson = False,
    tag: Annotated[list[str] | None, typer.Option("--tag", help="Only tools with this tag; may be repeated.")] = None,
    all_tags: Annotated[bool, typer.Option("--all-tags", help="Only tools with all the tags.")] = False,
    log_level: Level = "critical",  # problems are shown in any case
) -> None:
    """List the tools that would be served."""
    from mcp_bridge.cli import logs, showing

    logs.configure(log_level)
    showing.show_list(file, as_json=as_json, tags=tag or [], match_all=all_tags)


@app.command()
def call(
    name: Annotated[str, typer.Argument(help="The tool's name.")],
    given: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Its arguments, or one JSON object.")
    ] = None,
    file: FileOption = None,
    arguments: Annotated[
        str | None, typer.Option(metavar="JSON", help="The arguments as JSON instead; - reads standard input.")
    ] = None,
    as_json: AsJson = False,
    log_level: Level = "error",
) -> None:
    """Call one tool and print what it answers."""
    from mcp_bridge.cli import calling, logs

    logs.configure(log_level)
    calling.call(name, given or [], file, arguments=arguments, as_json=as_json)


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where; it is made if need be.")] = Path(),
) -> None:
    """Make a project: settings, tools, a test, a Makefile; nothing that is there is touched."""
    from mcp_bridge.cli import initialising

    initialising.init(folder)


@app.command()
def validate(file: File = None, as_json: AsJson = False, log_level: Level = "critical") -> None:
    """Check settings and sources without serving; exit code 1 when something is wrong."""
    from mcp_bridge.cli import logs, showing

    logs.configure(log_level)
    showing.validate(file, as_json=as_json)


@app.command()
def lint(
    file: File = None,
    client: Annotated[
        str, typer.Option(metavar="NAME", help="A client, such as claude-code; `all` for each that is known.")
    ] = "all",
    server_name: Annotated[
        str | None, typer.Option(metavar="NAME", help="What it is called in the client. Default: as install calls it.")
    ] = None,
    as_json: AsJson = False,
    log_level: Level = "critical",
) -> None:
    """Say what clients would reject of the tools, and the cure; exit code 1 when something is rejected."""
    from mcp_bridge.cli import linting, logs

    logs.configure(log_level)
    linting.check(file, client, server_name, as_json=as_json)


@app.command()
def doctor(
    target: Annotated[
        str | None,
        typer.Argument(metavar="[CLIENT|FILE]", help="A client, `all` of them, or a file. Default: the file here."),
    ] = None,
    scope: Annotated[
        str | None, typer.Option(metavar="SCOPE", help="Of the client's files the one of the user, project or local.")
    ] = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="The server of this name in the client.")] = None,
    call: Annotated[
        str | None, typer.Option(metavar="TOOL[=JSON]", help="Call this tool, also one that does not only read.")
    ] = None,
    command: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="Check this server command instead, as a client has it.")
    ] = None,
    as_json: AsJson = False,
    timeout: Annotated[
        float | None,
        typer.Option(help="Seconds for each step. Default: 20, and for a client what it allows.", show_default=False),
    ] = None,
) -> None:
    """Start the server as a client would, speak to it, and name the cause of what fails."""
    from mcp_bridge.cli.doctor import diagnosis
    from mcp_bridge.cli.doctor.wishes import Wishes

    wishes = Wishes(command=command, scope=scope, name=name, call=call, as_json=as_json, patience=timeout)
    diagnosis.doctor(target, wishes)


@app.command()
def schema() -> None:
    """Print the JSON Schema of the settings file, for editors."""
    from mcp_bridge.cli import showing

    showing.settings_schema()
