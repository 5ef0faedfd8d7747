"""`mcp-bridge module`: what there is to do with Amplifier modules. Each body imports what it needs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="module",
    help="Check Amplifier modules, and lock those that come from git.",
    rich_markup_mode=None,
    no_args_is_help=True,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print the whole answer as JSON on stdout.")]


class Kind(StrEnum):
    """The types of modules."""

    TOOL = "tool"
    HOOK = "hook"
    PROVIDER = "provider"
    ORCHESTRATOR = "orchestrator"
    CONTEXT = "context"


@app.command()
def validate(
    module: Annotated[str, typer.Argument(help="A module: its folder or file, or the name of an installed one.")],
    kind: Annotated[
        Kind | None, typer.Option("--type", help="What it has to be; otherwise what it says that it is.")
    ] = None,
    config: Annotated[str, typer.Option(metavar="JSON", help="The configuration to mount it with.")] = "{}",
    as_json: AsJson = False,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="How long one step of it may take.")] = 10.0,
) -> None:
    """Check a module against the contracts of its type; exit 1 when something required is missing."""
    from mcp_bridge.cli.validating import validate as check

    check(module, kind=kind.value if kind is not None else None, config=config, as_json=as_json, patience=timeout)


@app.command()
def lock(
    file: Annotated[Path | None, typer.Argument(help="Settings, or a mount plan.", show_default=False)] = None,
    update: Annotated[bool, typer.Option("--update", help="Look for new commits also where one is locked.")] = False,
    as_json: AsJson = False,
) -> None:
    """Fetch the modules that come from git, and write down which commits these are."""
    from mcp_bridge.cli.locking import lock as write

    write(file, update=update, as_json=as_json)
