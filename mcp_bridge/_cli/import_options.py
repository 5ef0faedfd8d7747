"""The options of the commands that make settings or files from what exists elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from mcp_bridge._cli.options import JsonOption
from mcp_bridge._cli.parameters import Argument, Option


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """Write a settings file with the servers of your MCP clients. Secrets are not copied."""

    sources: Annotated[
        list[str] | None,
        Option("--from", metavar="CLIENT|FILE", help="Take servers only from this client or file. Repeatable."),
    ] = None
    out: Annotated[Path, Option("--out", "-o", metavar="FILE", help="The file to write; `-` prints it.")] = Path(
        "mcp-bridge.yaml"
    )
    force: Annotated[bool, Option("--force", help="Replace the file if it exists.")] = False
    as_json: JsonOption = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenApiImportOptions:
    """Store the OpenAPI document of an HTTP API as one file, for a source of type openapi."""

    source: Annotated[str, Argument(metavar="URL|FILE", help="The document, 3.0 or 3.1, as JSON or YAML.")]
    out: Annotated[
        Path | None,
        Option(
            "--out", "-o", metavar="FILE", help="The file to write. Default: a name made from the title of the API."
        ),
    ] = None
    force: Annotated[bool, Option("--force", help="Replace the file if it exists, and list what has changed.")] = False
    allow: Annotated[
        list[str] | None,
        Option(
            metavar="ADDRESS",
            help="Also fetch from this network, `loopback` or `private`, and without encryption there. Repeatable.",
        ),
    ] = None
    as_json: JsonOption = False
