"""Runs a command line. A plain `serve` is parsed without typer, because importing typer takes 100 ms."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from mcp_bridge._cli.exits import run_and_exit
from mcp_bridge._cli.garbage_collection import enable_collections
from mcp_bridge._cli.parameters import parse_arguments
from mcp_bridge._cli.serve_options import ServeOptions
from mcp_bridge._cli.text_streams import configure_streams

if TYPE_CHECKING:
    from mcp_bridge._runtime.platform.server_supervisor import Supervisor


def run_command_line(guard: Supervisor | None = None) -> NoReturn:
    """Run the command line and exit with its code. `guard` is the process guard, if one is running."""
    configure_streams()
    run_and_exit(lambda: _run_command(sys.argv[1:], guard))


def _run_command(words: Sequence[str], guard: Supervisor | None) -> None:
    options = None
    if words[:1] == ["serve"]:
        options = parse_arguments(ServeOptions, words[1:])
    if options is not None:
        from mcp_bridge._cli.serve import serve_target

        serve_target(options, guard)
    else:
        from mcp_bridge._cli.app import app

        enable_collections()
        app(obj=guard, prog_name="mcp-bridge")
