"""Runs `serve --shared`. Each client starts this process, so it imports as little as possible."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from mcp_bridge._cli.parameters import parse_arguments
from mcp_bridge._cli.serve_options import ServeOptions
from mcp_bridge._cli.text_streams import configure_streams
from mcp_bridge._runtime.terminal_text import escape_text


def run_relay_command(words: Sequence[str]) -> None:
    """Run the relay for the arguments of `serve`, and exit. Return if only typer can parse these arguments."""
    options = parse_arguments(ServeOptions, words)
    if options is None or not options.shared:
        return
    configure_streams()
    try:
        run_relay(options)
    except Exception:
        from mcp_bridge._cli.exits import report_errors

        with report_errors():
            raise


def run_relay(options: ServeOptions) -> NoReturn:
    """Relay between stdio and the shared server until the client disconnects, and exit. Raises ConfigError."""
    if options.http is not None:
        _reject_option("--http", "a shared server has no address and no token", "Omit this option, or --shared.")
    if options.token_env is not None:
        _reject_option("--token-env", "a shared server has no address and no token", "Omit this option, or --shared.")
    if options.file is None or not os.path.exists(options.file):
        from mcp_bridge._cli.target import check_servable, find_file

        options = options._replace(file=find_file(options.file))
        assert options.file is not None
        check_servable(options.file)
    from mcp_bridge._cli.garbage_collection import enable_collections
    from mcp_bridge._cli.shared.instance import find_instance
    from mcp_bridge._cli.shared.launch import connect_to_instance
    from mcp_bridge._cli.shared.relay import Relay, StartError

    enable_collections()
    code = 0
    try:
        Relay(lambda: find_instance(options), connect_to_instance, os.urandom(16).hex()).run()
    except StartError as error:
        print(escape_text(str(error)), file=sys.stderr, flush=True)
        code = error.code
    raise SystemExit(code)


def _reject_option(where: str, problem: str, hint: str) -> NoReturn:
    # Imported late, because most starts need no error.
    from mcp_bridge._contracts.errors import ConfigError

    raise ConfigError(problem, where=where, hint=hint)
