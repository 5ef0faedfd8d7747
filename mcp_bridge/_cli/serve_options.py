"""The options of `serve`, some of them in common with other commands. `serve` imports no other options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NamedTuple

from mcp_bridge._cli.parameters import Argument, Option

FILE_HELP = (
    "A Python file, a folder of Python files, or a settings file (YAML, JSON, TOML). "
    "Default: mcp-bridge.yaml or tools.py in "
    "the current folder."
)

FileArgument = Annotated[Path | None, Argument(help=FILE_HELP)]
LogLevelOption = Annotated[str, Option(metavar="LEVEL", help="The log level: debug, info, warning, error or critical.")]
LogFileOption = Annotated[Path | None, Option(metavar="FILE", help="Also log to this file, rotated at 5 MB.")]


class ServeOptions(NamedTuple):
    """Serve tools to MCP clients over stdio or HTTP."""

    file: FileArgument = None
    http: Annotated[
        str | None,
        Option(
            metavar="[HOST:]PORT",
            help="Serve over HTTP on this address instead of stdio; `settings` means the address in the settings.",
        ),
    ] = None
    token_env: Annotated[
        str | None,
        Option(
            metavar="NAME", help="Require HTTP clients to send a bearer token: the value of this environment variable."
        ),
    ] = None
    workers: Annotated[
        int | None,
        Option(
            metavar="NUMBER",
            min=1,
            max=64,
            help="Serve over HTTP with this number of processes (not on Windows). Default: `http.workers` in the "
            "settings, or 1.",
        ),
    ] = None
    shared: Annotated[
        bool,
        Option(
            "--shared",
            help="Use one server for all clients that serve this file over stdio. It starts with the first client, and "
            "stops some time after the last one.",
        ),
    ] = False
    reload: Annotated[bool, Option("--reload", help="Reload changed Python files, and notify clients.")] = False
    guard: Annotated[
        bool | None,
        Option(
            "--guard/--no-guard",
            help="Run two supervisor processes that stop all processes of the server when it exits (Linux only). "
            "Default: on if possible.",
        ),
    ] = None
    log_level: LogLevelOption = "warning"
    log_file: LogFileOption = None
