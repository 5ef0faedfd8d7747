"""The options of `import-command`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from mcp_bridge._cli.parameters import Argument


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportCommandOptions:
    """Draft settings that turn a program into a tool. Runs the program to read its help, so you have to trust it."""

    words: Annotated[
        list[str],
        Argument(
            metavar="COMMAND...",
            help="The program and its subcommand, such as 'git log' or 'python -m pip install', quoted or not.",
        ),
    ]
