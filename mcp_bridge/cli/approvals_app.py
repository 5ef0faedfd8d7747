"""`mcp-bridge approvals`: answer, list and revoke. Each body imports what it needs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

WHAT = "The settings that are served. Default: mcp-bridge.yaml here."
File = Annotated[Path | None, typer.Argument(help=WHAT, show_default=False)]


class OrAnswer(TyperGroup):
    """A group whose first command is meant where none is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """`approvals bridge.yaml` is `approvals answer bridge.yaml`."""
        if not args or (args[0] not in self.commands and args[0] not in {"--help", "-h"}):
            args = ["answer", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    name="approvals",
    cls=OrAnswer,
    help="Answer what running bridges ask before calls run; list and revoke what was allowed for longer.",
    rich_markup_mode=None,
)


@app.command()
def answer(file: File = None) -> None:
    """Answer the questions of running bridges, here; the default."""
    from mcp_bridge.cli import approvals

    approvals.answer(file)


@app.command("list")
def list_grants(
    file: File = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole answer as JSON on stdout.")] = False,
) -> None:
    """List what is allowed for a session or always."""
    from mcp_bridge.cli import approvals

    approvals.show(file, as_json=as_json)


@app.command()
def revoke(
    id: Annotated[str | None, typer.Argument(help="A decision's id, or its beginning.", show_default=False)] = None,
    file: File = None,
    every: Annotated[bool, typer.Option("--all", help="Revoke all of them.")] = False,
) -> None:
    """Revoke a decision: calls like it are asked about again."""
    from mcp_bridge.cli import approvals

    approvals.revoke(id, file, every=every)
