"""The options of each command: a field is an argument or option, the docstring of the class is the command's help."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

FILE_HELP = (
    "A Python file, a folder of Python files, or a settings file (YAML, JSON, TOML). "
    "Default: mcp-bridge.yaml or tools.py in the current folder."
)
CLIENTS = (
    "The client: claude-desktop, claude-code, vscode, cursor, windsurf, zed, codex, gemini-cli, goose, opencode, "
    "copilot-cli, lm-studio, cline or continue."
)
SCOPE_HELP = "Which of the client's files to use: user, project or local. Default: user."
EDIT_FILE_HELP = "Edit the file directly, even if the client has a command for this."

FileArgument = Annotated[Path | None, typer.Argument(help=FILE_HELP, show_default=False)]
ClientArgument = Annotated[str, typer.Argument(help=CLIENTS, show_default=False)]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]
LogLevelOption = Annotated[
    str, typer.Option(metavar="LEVEL", help="The log level: debug, info, warning, error or critical.")
]
ScopeOption = Annotated[str | None, typer.Option("--scope", "-s", metavar="SCOPE", help=SCOPE_HELP)]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show the changes without making them.")]
EditFileOption = Annotated[bool, typer.Option("--edit-file", help=EDIT_FILE_HELP)]
ServerNameOption = Annotated[
    str | None,
    typer.Option(
        "--name", "-n", metavar="NAME", help="The server's name in the client. Default: `name` in the settings."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """Serve tools to MCP clients over stdio or HTTP."""

    file: FileArgument = None
    http: Annotated[
        str | None,
        typer.Option(
            metavar="[HOST:]PORT",
            help="Serve over HTTP on this address instead of stdio; `settings` means the address in the settings.",
        ),
    ] = None
    token_env: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Require HTTP clients to send a bearer token: the value of this environment variable."
        ),
    ] = None
    reload: Annotated[
        bool, typer.Option("--reload", help="Reload Python files when they change, and notify clients.")
    ] = False
    guard: Annotated[
        bool | None,
        typer.Option(
            "--guard/--no-guard",
            help="Run two supervisor processes that end all processes of the server when it ends (Linux only). "
            "Default: on if possible.",
            show_default=False,
        ),
    ] = None
    log_level: LogLevelOption = "warning"
    log_file: Annotated[Path | None, typer.Option(metavar="FILE", help="Also log to this file, rotated at 5 MB.")] = (
        None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """List the tools, resources and prompts that would be served."""

    file: FileArgument = None
    as_json: JsonOption = False
    tag: Annotated[list[str] | None, typer.Option(metavar="TAG", help="List only tools with this tag; repeatable.")] = (
        None
    )
    all_tags: Annotated[bool, typer.Option("--all-tags", help="List only tools that have every --tag.")] = False
    log_level: LogLevelOption = "critical"  # problems are reported at every level


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions:
    """Call one tool and print its result."""

    name: Annotated[str, typer.Argument(help="The name of the tool.")]
    pairs: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="The arguments of the call, or one JSON object.")
    ] = None
    file: Annotated[Path | None, typer.Option("--file", "-f", help=FILE_HELP, show_default=False)] = None
    arguments: Annotated[
        str | None, typer.Option(metavar="JSON", help="The arguments as a JSON object; - reads it from stdin.")
    ] = None
    as_json: JsonOption = False
    log_level: LogLevelOption = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class InitOptions:
    """Create a project. Writes settings, tools, a test and a Makefile. Existing files are not overwritten."""

    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder, created if it does not exist.")] = Path()


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateOptions:
    """Check settings and sources without serving them. Exits with 1 if there are problems."""

    file: FileArgument = None
    as_json: JsonOption = False
    log_level: LogLevelOption = "critical"


@dataclass(frozen=True, slots=True, kw_only=True)
class LintOptions:
    """Check which tools MCP clients would reject. Shows how to fix them. Exits with 1 if a tool is rejected."""

    file: FileArgument = None
    client: Annotated[str, typer.Option(metavar="NAME", help="A client such as claude-code, or `all`.")] = "all"
    server_name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The name of the server in the client. Default: as chosen by `install`."),
    ] = None
    as_json: JsonOption = False
    log_level: LogLevelOption = "critical"


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions:
    """Diagnose a server. Starts it as an MCP client would, and explains the cause of each failure."""

    target: Annotated[
        str | None,
        typer.Argument(
            metavar="CLIENT|FILE",
            help="A client, `all` for every client, or a file to serve. Default: mcp-bridge.yaml or tools.py in "
            "the current folder.",
        ),
    ] = None
    scope: Annotated[
        str | None, typer.Option(metavar="SCOPE", help="Check only this file of the client: user, project or local.")
    ] = None
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Check the server with this name in the client.")] = (
        None
    )
    call: Annotated[
        str | None, typer.Option(metavar="TOOL[=JSON]", help="Call this tool, even if it is not read-only.")
    ] = None
    command: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="Check the server that this command starts.")
    ] = None
    as_json: JsonOption = False
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="How long to wait for each response. Default: 20, or for a client twice its own timeout, at most 60.",
            show_default=False,
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaOptions:
    """Print the JSON Schema of the settings file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientsOptions:
    """List the MCP clients on this machine. Shows their settings files and the bridges in them."""

    as_json: JsonOption = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallOptions:
    """Add this server to an MCP client. Everything else in the client's settings stays unchanged."""

    client: ClientArgument
    file: FileArgument = None
    scope: ScopeOption = None
    name: ServerNameOption = None
    dry_run: DryRunOption = False
    only_print: Annotated[
        bool, typer.Option("--print", help="Print the entry and the file it belongs in, without changing anything.")
    ] = False
    link: Annotated[bool, typer.Option("--link", help="Print a link that installs the server when opened.")] = False
    force: Annotated[bool, typer.Option("--force", help="Replace another server that has the same name.")] = False
    edit_file: EditFileOption = False
    as_json: JsonOption = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UninstallOptions:
    """Remove this server from an MCP client. Everything else in the client's settings stays unchanged."""

    client: ClientArgument
    name: Annotated[
        str | None,
        typer.Argument(help="The name of the server. Default: every server that `install` added.", show_default=False),
    ] = None
    scope: ScopeOption = None
    dry_run: DryRunOption = False
    force: Annotated[bool, typer.Option("--force", help="Remove the server even if it is not a bridge.")] = False
    edit_file: EditFileOption = False
    as_json: JsonOption = False
