"""The options of `dev` and `top`, the commands of the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from mcp_bridge._cli.options import TokenOption
from mcp_bridge._cli.parameters import Argument, Option
from mcp_bridge._cli.serve_options import FileArgument, LogLevelOption


@dataclass(frozen=True, slots=True, kw_only=True)
class DevOptions:
    """Serve a file with a web page to try its tools, and reload it when it changes. Opens the page in the browser."""

    file: FileArgument = None
    port: Annotated[
        int | None,
        Option(metavar="PORT", min=0, max=65535, help="The port. Default: 8808, or a free one if 8808 is in use."),
    ] = None
    open: Annotated[bool, Option("--open/--no-open", help="Open the page in the browser.")] = True
    log_level: LogLevelOption = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopOptions:
    """Show the calls of a running server, live. Press q or Ctrl-C to stop. In a pipe, prints a line for each call."""

    target: Annotated[
        str | None,
        Argument(
            metavar="URL|FILE",
            help="The URL of a server with a page, or its settings file. For `dev`, the address that it prints. "
            "Default: mcp-bridge.yaml or tools.py in the current folder.",
        ),
    ] = None
    token_env: TokenOption = None
