"""What a client would not take of the tools that its server lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mcp_bridge.cli.doctor.findings import Finding
from mcp_bridge.cli.doctor.preflight import Subject
from mcp_bridge.cli.exits import counted
from mcp_bridge.cli.target import SETTINGS
from mcp_bridge.clients.client import Launch
from mcp_bridge.clients.reading import names_bridge, settings_of
from mcp_bridge.contracts.errors import ConfigError

if TYPE_CHECKING:
    from mcp_bridge.dialects.dialect import Dialect


def rejections(subject: Subject, server: str, tools: Sequence[Any]) -> list[Finding]:
    """A finding for each name or schema that this client rejects, and one for all that it takes worse.

    `server` is what the server is called there, which some clients put before the names of its tools.
    """
    from mcp_bridge.dialects.linting import lint
    from mcp_bridge.dialects.table import PROFILES

    client, profile = subject.client, PROFILES[subject.client.name]
    sound = [tool for tool in tools if isinstance(tool, dict)]
    if not any(one.level != "note" for one in lint(sound, profile, server_name=server)):
        return []
    found = lint(sound, profile, server_name=server, dialect=_dialect(subject.launch))
    rejected = [
        Finding(f"tool '{one.tool}'" if one.tool else "tools", False, f"{one.path}: {one.text}", one.cure)
        for one in found
        if one.level == "error"
    ]
    worse = [one for one in found if one.level == "warning"]
    if worse:
        detail = f"{client.title} takes {counted(len(worse), 'thing')} worse than meant, such as: {worse[0].text}"
        rejected.append(Finding("tools", True, detail, f"See `mcp-bridge lint --client {profile.name}`."))
    return rejected


def _dialect(launch: Launch) -> Dialect:
    """What was rewritten in the list already, as the settings say: what is still there needs another cure."""
    from mcp_bridge.app.factory import dialect_of
    from mcp_bridge.dialects.dialect import NONE
    from mcp_bridge.settings import load

    written = settings_of(launch.argv) if names_bridge(launch.argv) else None
    path = launch.folder / written if written is not None else None
    if path is None or path.suffix.lower() not in SETTINGS:
        return NONE
    try:
        return dialect_of(load(path, launch.environ))
    except ConfigError:
        return NONE
