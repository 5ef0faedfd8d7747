"""Runs a command line: `serve` at once if it is a plain one, everything else by typer."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import TYPE_CHECKING

from mcp_bridge._cli.exits import INTERRUPTED, ExitCode, LastExitHandler, exit_process, report_errors
from mcp_bridge._cli.garbage_collection import enable_collections
from mcp_bridge._cli.parameters import parse_arguments
from mcp_bridge._cli.serve_options import ServeOptions

if TYPE_CHECKING:
    from mcp_bridge._runtime.supervisor import Supervisor


def run_command_line(guard: Supervisor | None = None) -> None:
    """Run the command line and exit with its code; `guard` is the supervisor that is already running.

    Characters that the terminal's encoding lacks are escaped.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    last_handler = LastExitHandler()
    code: int | str | None = ExitCode.OK
    try:
        with report_errors():
            _run_command(sys.argv[1:], guard)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except SystemExit as end:
        code = end.code
    exit_process(int(code or ExitCode.OK), last_handler)


def _run_command(words: Sequence[str], guard: Supervisor | None) -> None:
    options = parse_arguments(ServeOptions, words[1:]) if words[:1] == ["serve"] else None
    if options is not None:
        from mcp_bridge._cli.serve import serve_target

        serve_target(options, guard)
    else:
        from mcp_bridge._cli.app import app

        enable_collections()
        app(obj=guard)
