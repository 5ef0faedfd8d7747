"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

FILE_HELP = (
    "A Python file, a folder of Python files, or a settings file (YAML, JSON, TOML). "
    "Default: mcp-bridge.yaml or tools.py in the current folder."
)
CLIENT_HELP = (
    "claude-desktop, claude-code, vscode, cursor, windsurf, zed, codex, gemini-cli, goose, opencode, copilot-cli, "
    "lm-studio, cline or continue."
)

FileArgument = Annotated[Path | None, typer.Argument(help=FILE_HELP, show_default=False)]
FileOption = Annotated[Path | None, typer.Option("--file", "-f", help=FILE_HELP, show_default=False)]
ClientArgument = Annotated[str, typer.Argument(help=CLIENT_HELP, show_default=False)]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]
LogLevelOption = Annotated[
    str, typer.Option("--log-level", metavar="LEVEL", help="debug, info, warning, error or critical.")
]
ScopeOption = Annotated[
    str | None,
    typer.Option(
        "--scope",
        "-s",
        metavar="SCOPE",
        help="Which of the client's files to use: user, project or local. Default: user.",
    ),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show the changes without making them.")]
EditFileOption = Annotated[
    bool, typer.Option("--edit-file", help="Edit the file directly, even if the client has a command for this.")
]
OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="PATH", help="Write to this file instead of stdout.", show_default=False),
]
WheelOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Install mcp-bridge from this wheel instead of a package index.", show_default=False
    ),
]
IncludeOption = Annotated[
    list[str] | None,
    typer.Option("--include", metavar="PATTERN", help="Also include these files, e.g. 'data/*.json'; repeatable."),
]
NeedsOption = Annotated[
    list[str] | None,
    typer.Option("--needs", metavar="PACKAGE", help="A package to add to those in requirements.txt; repeatable."),
]
EnvOption = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="NAME", help="An environment variable to add to those in the settings; repeatable."),
]
VersionOption = Annotated[str | None, typer.Option(metavar="VERSION", help="The version of the package.")]
DescriptionOption = Annotated[
    str | None, typer.Option("--description", metavar="TEXT", help="A description in one line.")
]
ServerNameOption = Annotated[
    str | None,
    typer.Option(
        "--name", "-n", metavar="NAME", help="The name of the server in the client. Default: the name in the settings."
    ),
]
