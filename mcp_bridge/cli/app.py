"""The commands and their options. Each function imports its command late, so that `--help` stays fast."""

from __future__ import annotations

import sys
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mcp_bridge._version import __version__
from mcp_bridge.cli.command_groups import approvals, export, module
from mcp_bridge.cli.exits import Exit, errors_for_people, leave
from mcp_bridge.cli.parameters import (
    ClientArgument,
    DryRunOption,
    EditFileOption,
    FileArgument,
    FileOption,
    JsonOption,
    LogLevelOption,
    ScopeOption,
    ServerNameOption,
)

if TYPE_CHECKING:
    from mcp_bridge.runtime.supervisor import Guard

app = typer.Typer(
    name="mcp-bridge",
    help="Serve the tools you already have to any MCP client.",
    rich_markup_mode=None,  # with rich, --help costs three times as much
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(export)
app.add_typer(module)
app.add_typer(approvals)


def run(guard: Guard | None = None) -> None:
    """Run the command line and exit with its code; `guard` is the process guard that is already running.

    Characters that the terminal's encoding lacks are escaped.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    code: int | str | None = Exit.OK
    try:
        with errors_for_people():
            app(obj=guard)
    except SystemExit as end:
        code = end.code
    leave(int(code or Exit.OK))


def _print_version(is_given: bool) -> None:
    if is_given:
        print(f"mcp-bridge {__version__}")
        raise typer.Exit


@app.callback()
def accept_common_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Accept the options of every command."""


@app.command()
def serve(
    context: typer.Context,
    file: FileArgument = None,
    http: Annotated[
        str | None,
        typer.Option(
            metavar="[HOST:]PORT",
            help="Serve over HTTP on this address instead of stdio; `settings` uses the address in the settings.",
        ),
    ] = None,
    token_env: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Require HTTP clients to send the bearer token in this environment variable."
        ),
    ] = None,
    reload: Annotated[
        bool, typer.Option("--reload", help="Reload Python files when they change, and notify clients.")
    ] = False,
    guard: Annotated[
        bool | None,
        typer.Option(
            "--guard/--no-guard",
            help="Run two small processes that end whatever tools leave running; Linux only. Default: where possible.",
            show_default=False,
        ),
    ] = None,
    log_level: LogLevelOption = "warning",
    log_file: Annotated[Path | None, typer.Option(help="Also log to this file, rotated at 5 MB.")] = None,
) -> None:
    """Serve tools to MCP clients over stdio or HTTP."""
    from mcp_bridge.cli.serve import ServeOptions, serve_target

    options = ServeOptions(
        http=http, token_env=token_env, reload=reload, log_level=log_level, log_file=log_file, guard=guard
    )
    serve_target(file, options, context.obj)


@app.command("list")
def list_tools(
    file: FileArgument = None,
    as_json: JsonOption = False,
    tag: Annotated[list[str] | None, typer.Option("--tag", help="List only tools with this tag; repeatable.")] = None,
    all_tags: Annotated[bool, typer.Option("--all-tags", help="List only tools that have every --tag.")] = False,
    log_level: LogLevelOption = "critical",  # problems are reported at every level
) -> None:
    """List the tools, resources and prompts that would be served."""
    from mcp_bridge.cli.listing import ListOptions, list_entries
    from mcp_bridge.cli.logs import configure

    configure(log_level)
    list_entries(file, ListOptions(as_json=as_json, tags=tag or (), match_all_tags=all_tags))


@app.command()
def call(
    name: Annotated[str, typer.Argument(help="The name of the tool.")],
    pairs: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="The arguments, or one JSON object.")
    ] = None,
    file: FileOption = None,
    arguments: Annotated[
        str | None, typer.Option(metavar="JSON", help="The arguments as JSON; - reads them from stdin.")
    ] = None,
    as_json: JsonOption = False,
    log_level: LogLevelOption = "error",
) -> None:
    """Call one tool and print its result."""
    from mcp_bridge.cli.call import CallOptions, call_tool
    from mcp_bridge.cli.logs import configure

    configure(log_level)
    call_tool(name, CallOptions(pairs=pairs or (), file=file, arguments=arguments, as_json=as_json))


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder, created if it does not exist.")] = Path(),
) -> None:
    """Create a project. It has settings, tools, a test and a Makefile. Existing files are not overwritten."""
    from mcp_bridge.cli.init import create_project

    create_project(folder)


@app.command()
def validate(file: FileArgument = None, as_json: JsonOption = False, log_level: LogLevelOption = "critical") -> None:
    """Check settings and sources without serving them. Exits with 1 if there are problems."""
    from mcp_bridge.cli.listing import validate_target
    from mcp_bridge.cli.logs import configure

    configure(log_level)
    validate_target(file, as_json=as_json)


@app.command()
def lint(
    file: FileArgument = None,
    client: Annotated[str, typer.Option(metavar="NAME", help="A client such as claude-code, or `all`.")] = "all",
    server_name: Annotated[
        str | None, typer.Option(metavar="NAME", help="The name of the server in the client. Default: as for install.")
    ] = None,
    as_json: JsonOption = False,
    log_level: LogLevelOption = "critical",
) -> None:
    """Check which tools MCP clients would reject. Shows how to fix them. Exits with 1 if a tool is rejected."""
    from mcp_bridge.cli.lint import LintOptions, lint_tools
    from mcp_bridge.cli.logs import configure

    configure(log_level)
    lint_tools(file, LintOptions(client=client, server_name=server_name, as_json=as_json))


@app.command()
def doctor(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[CLIENT|FILE]",
            help="A client, `all` for every client, or a file to serve. Default: the file in the current folder.",
        ),
    ] = None,
    scope: Annotated[
        str | None,
        typer.Option(metavar="SCOPE", help="Check only this file of the client: user, project or local."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Check the server with this name in the client.")
    ] = None,
    call: Annotated[
        str | None, typer.Option(metavar="TOOL[=JSON]", help="Call this tool, even if it is not read-only.")
    ] = None,
    command: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="Check the server that this command starts.")
    ] = None,
    as_json: JsonOption = False,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="How long to wait for each response. Default: 20, or for a client twice its own timeout, at most 60.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Diagnose a server. Starts it as an MCP client would, and explains the cause of each failure."""
    from mcp_bridge.cli.doctor.command import DoctorOptions, run_doctor

    options = DoctorOptions(command=command, scope=scope, name=name, call=call, as_json=as_json, timeout=timeout)
    run_doctor(target, options)


@app.command()
def schema() -> None:
    """Print the JSON Schema of the settings file."""
    from mcp_bridge.cli.listing import print_settings_schema

    print_settings_schema()


@app.command()
def clients(as_json: JsonOption = False) -> None:
    """List the MCP clients on this machine. Shows their settings files and the bridges in them."""
    from mcp_bridge.cli.clients import list_clients

    list_clients(as_json=as_json)


@app.command()
def install(
    client: ClientArgument,
    file: FileArgument = None,
    scope: ScopeOption = None,
    name: ServerNameOption = None,
    dry_run: DryRunOption = False,
    only_print: Annotated[
        bool, typer.Option("--print", help="Print the entry and the file it belongs in, without changing anything.")
    ] = False,
    link: Annotated[bool, typer.Option("--link", help="Print a link that installs the server when opened.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace another server that has the same name.")] = False,
    edit_file: EditFileOption = False,
    as_json: JsonOption = False,
) -> None:
    """Add this server to an MCP client. Everything else in the client's settings stays unchanged."""
    from mcp_bridge.cli.install import InstallOptions, install_server

    options = InstallOptions(
        scope=scope,
        name=name,
        dry_run=dry_run,
        only_print=only_print,
        link=link,
        force=force,
        edit_file=edit_file,
        as_json=as_json,
    )
    install_server(client, file, options)


@app.command()
def uninstall(
    client: ClientArgument,
    name: Annotated[
        str | None,
        typer.Argument(help="The name of the server. Default: what install added.", show_default=False),
    ] = None,
    scope: ScopeOption = None,
    dry_run: DryRunOption = False,
    force: Annotated[bool, typer.Option("--force", help="Remove the server even if it is not a bridge.")] = False,
    edit_file: EditFileOption = False,
    as_json: JsonOption = False,
) -> None:
    """Remove this server from an MCP client. Restores the client's settings as they were before."""
    from mcp_bridge.cli.uninstall import UninstallOptions, uninstall_server

    options = UninstallOptions(
        name=name, scope=scope, dry_run=dry_run, force=force, edit_file=edit_file, as_json=as_json
    )
    uninstall_server(client, options)
