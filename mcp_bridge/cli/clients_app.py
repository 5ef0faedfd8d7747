"""`mcp-bridge clients`, `install` and `uninstall`: the bridge in the files of MCP clients. Each body imports what it
needs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

CLIENT = "claude-desktop, claude-code, vscode, cursor, windsurf, zed, codex, gemini-cli, goose, opencode, copilot-cli, "
Client = Annotated[str, typer.Argument(help=CLIENT + "lm-studio, cline or continue.", show_default=False)]
WHAT = "Settings, a Python file or a folder of them. Default: mcp-bridge.yaml or tools.py here."
Scope = Annotated[
    str | None,
    typer.Option("--scope", "-s", metavar="SCOPE", help="user, project or local: as the client has it. Default: user."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the whole answer as JSON on stdout.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be changed, and change nothing.")]
EditFile = Annotated[bool, typer.Option("--edit-file", help="Edit the file, also where the client has a command.")]


def clients(as_json: AsJson = False) -> None:
    """List the MCP clients of this machine, their files, and the bridges in them."""
    from mcp_bridge.cli import clients as listing

    listing.show(as_json=as_json)


def install(
    client: Client,
    settings: Annotated[Path | None, typer.Argument(help=WHAT, show_default=False)] = None,
    scope: Scope = None,
    name: Annotated[
        str | None, typer.Option("--name", "-n", help="The server's name there. Default: that of the settings.")
    ] = None,
    dry_run: DryRun = False,
    only_print: Annotated[
        bool, typer.Option("--print", help="Print the entry and where it belongs, and change nothing.")
    ] = False,
    link: Annotated[bool, typer.Option("--link", help="Print an address that installs it when it is opened.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace another server of that name.")] = False,
    edit_file: EditFile = False,
    as_json: AsJson = False,
) -> None:
    """Put the bridge into an MCP client's settings; nothing else in them is touched."""
    from mcp_bridge.cli import installing

    wishes = installing.Wishes(
        scope=scope,
        name=name,
        dry_run=dry_run,
        only_print=only_print,
        link=link,
        force=force,
        edit_file=edit_file,
        as_json=as_json,
    )
    installing.install(client, settings, wishes)


def uninstall(
    client: Client,
    name: Annotated[str | None, typer.Argument(help="The server's name there.", show_default=False)] = None,
    scope: Scope = None,
    dry_run: DryRun = False,
    force: Annotated[bool, typer.Option("--force", help="Take it out also if it is no bridge.")] = False,
    edit_file: EditFile = False,
    as_json: AsJson = False,
) -> None:
    """Take the bridge out of an MCP client's settings again, and leave them as they were before."""
    from mcp_bridge.cli import uninstalling

    wishes = uninstalling.Wishes(
        name=name, scope=scope, dry_run=dry_run, force=force, edit_file=edit_file, as_json=as_json
    )
    uninstalling.uninstall(client, wishes)


def add_to(app: typer.Typer) -> None:
    """Make these commands of the application."""
    for command in (clients, install, uninstall):
        app.command()(command)
