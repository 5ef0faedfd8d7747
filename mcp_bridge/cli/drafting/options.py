"""The options of `import-command`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from mcp_bridge.cli.parameters import Argument


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportCommandOptions:
    """Draft the settings of a command as a tool. Asks the program itself, which must be one that you trust."""

    words: Annotated[
        list[str],
        Argument(
            metavar="COMMAND...",
            help="The program and its subcommand, as in 'git log' or 'python -m pip install', as one text or as words.",
        ),
    ]
