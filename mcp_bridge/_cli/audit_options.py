"""The options of `audit`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from mcp_bridge._cli.parameters import Argument, Option


@dataclass(frozen=True, slots=True, kw_only=True)
class TrailOptions:
    """Read, filter and verify an audit trail. With --verify, the exit code is 1 if it was changed."""

    file: Annotated[
        Path | None,
        Argument(
            help="The file of an audit trail, or a settings file with the policy `audit`. Default: mcp-bridge.yaml in "
            "the current folder."
        ),
    ] = None
    tool: Annotated[
        str | None,
        Option(metavar="PATTERN", help="Only calls with this name or URI, with the wildcards * and ?."),
    ] = None
    principal: Annotated[str | None, Option(metavar="NAME", help="Only the calls of this principal.")] = None
    outcome: Annotated[
        str | None, Option(metavar="OUTCOME", help="Only ok, error, denied, cancelled, or started (see `starts`).")
    ] = None
    since: Annotated[
        str | None,
        Option(
            metavar="TIME",
            help="Only calls that began after this time: a duration before now such as 30m or 7d, or a time such as "
            "2026-11-26 or 2026-11-26T13:30, which is local unless it has an offset such as +02:00.",
        ),
    ] = None
    until: Annotated[str | None, Option(metavar="TIME", help="Only calls that began before this time.")] = None
    text: Annotated[str | None, Option(metavar="TEXT", help="Only records that contain this text.")] = None
    limit: Annotated[
        int, Option("--limit", "-n", metavar="N", min=0, help="How many of the latest records to print; 0 for all.")
    ] = 100
    follow: Annotated[bool, Option("--follow", "-f", help="Also print new records, until Ctrl-C.")] = False
    verify: Annotated[bool, Option("--verify", help="Check the chain, and name the first broken record.")] = False
    contains: Annotated[
        str | None,
        Option(metavar="HASH", help="Verify, and check that a record still has this hash, which you noted earlier."),
    ] = None
    as_json: Annotated[bool, Option("--json", help="Print each record as a line of JSON on stdout.")] = False
