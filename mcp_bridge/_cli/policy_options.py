"""The options of commands about policies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from mcp_bridge._cli.options import SETTINGS_HELP, JsonOption, TargetOption
from mcp_bridge._cli.parameters import Argument, Option
from mcp_bridge._cli.serve_options import LogLevelOption


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainOptions:
    """Show which layers a tool call would pass, and which would stop it, without running the tool or asking anyone."""

    words: Annotated[
        list[str],
        Argument(
            metavar="[FILE] TOOL [KEY=VALUE]...",
            help=f"FILE: {SETTINGS_HELP}\nTOOL: The name of the tool.\nKEY=VALUE: An argument; KEY:=JSON for any JSON "
            "value. If there are none, the arguments are not validated.",
        ),
    ]
    file: TargetOption = None
    arguments: Annotated[str | None, Option(metavar="JSON", help="A JSON object of arguments; - reads stdin.")] = None
    principal: Annotated[str | None, Option(metavar="NAME", help="The principal of the caller. Default: none.")] = None
    as_json: JsonOption = False
    log_level: LogLevelOption = "error"
