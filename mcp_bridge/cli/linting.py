"""`lint`: what clients would reject of the tools that are served, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

import anyio

from mcp_bridge.app.bridge import Bridge
from mcp_bridge.cli.clients import nearest
from mcp_bridge.cli.exits import Exit, counted, say
from mcp_bridge.cli.served import looked_at
from mcp_bridge.cli.showing import data, started
from mcp_bridge.cli.target import find, load
from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.dialects.linting import Finding, lint
from mcp_bridge.dialects.profile import Profile
from mcp_bridge.dialects.rewriting import applied
from mcp_bridge.dialects.table import PROFILES
from mcp_bridge.runtime.descriptors import private
from mcp_bridge.wire.tools import to_wire
from mcp_bridge.wire.versions import HANDSHAKE

ALL = "all"
_LONGEST = 200
"""The most characters of a tool's own name that are shown to a person."""
_MISSING = "; not all could be published, see above"


def check(path: Path | None, client: str, server: str | None, *, as_json: bool) -> None:
    """Say what a client, or each, would reject or take worse of the served tools; exit 1 when something is rejected,
    or could not be published and so not be asked about. The server is called as `install` would call it.

    Raises ConfigError for a client that is not known, and for settings that cannot be used.
    """
    profiles = _profiles(client)
    with private():  # stdout is for the answer alone
        bridge = load(path).bridge
        anyio.run(started, bridge)
    tools = served(bridge)
    server = server or looked_at(find(path)).name
    found = [
        finding
        for profile in profiles
        for finding in lint(
            tools,
            profile,
            server_name=server,
            dialect=bridge.dialect,
            result=bridge.identity.result,
        )
    ]
    ok = not any(finding.level == "error" for finding in found) and not any(bridge.problems.values())
    if as_json:
        names = [one.name for one in profiles]
        data({"ok": ok, "clients": names, "findings": [asdict(one) for one in found], "problems": bridge.problems})
    else:
        _print(found, bridge.problems, f"{counted(len(tools), 'tool')}, {_summary(found, profiles)}")
    raise SystemExit(Exit.OK if ok else Exit.FAILED)


def served(bridge: Bridge) -> list[dict[str, Any]]:
    """The tools as clients of the handshake era see them."""
    wire = [to_wire(entry.to_tool_definition()) for entry in bridge.registry.list()]
    return [(applied(tool, bridge.dialect) if bridge.dialect.changes else tool).listing(HANDSHAKE) for tool in wire]


def _profiles(client: str) -> Sequence[Profile]:
    if client == ALL:
        return list(PROFILES.values())
    if client.lower() not in PROFILES:
        near = nearest(client)
        hint = f"Did you mean {' or '.join(near)}?" if near else f"Name one of: {', '.join(PROFILES)}, or {ALL}"
        raise ConfigError(f"there is no client '{client}' here", where="--client", hint=hint)
    return [PROFILES[client.lower()]]


def _print(found: Iterable[Finding], problems: Mapping[str, Sequence[str]], summary: str) -> None:
    for source, lines in problems.items():
        for line in lines:
            say(f"source '{source}': {line}")
            summary += "" if summary.endswith(_MISSING) else _MISSING
    for name, findings in groupby(found, key=lambda finding: finding.client):
        say(f"{PROFILES[name].title} ({name})")
        for finding in findings:
            original = f" ({_cut(finding.original)})" if finding.original else ""
            tool = f"tool '{finding.tool}'{original}: " if finding.tool else ""
            place = f"{finding.path}: " if finding.path != "$" else ""
            say(f"  {finding.level}: {tool}{place}{finding.text}")
            say(f"    {finding.cure} ({finding.source})")
    say(summary)


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[:_LONGEST]}..."


def _summary(found: Sequence[Finding], profiles: Sequence[Profile]) -> str:
    rejecting = {finding.client for finding in found if finding.level == "error"}
    worse = {finding.client for finding in found if finding.level == "warning"} - rejecting
    said = [f"{counted(len(profiles), 'client')} asked"]
    said += [f"{counted(len(rejecting), 'client')} would reject something: {', '.join(sorted(rejecting))}"] * bool(
        rejecting
    )
    said += [f"{counted(len(worse), 'client')} would take something worse: {', '.join(sorted(worse))}"] * bool(worse)
    return "; ".join(said if rejecting or worse else [*said, "nothing is rejected"])
