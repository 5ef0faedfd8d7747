"""What a client would not take of the tools that its server lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp_bridge.cli.exits import counted
from mcp_bridge.cli.findings import Finding
from mcp_bridge.clients.client import Client


def rejections(client: Client, server: str, tools: Sequence[Any]) -> list[Finding]:
    """A finding for each name or schema that this client rejects, and one for all that it takes worse.

    `server` is what the server is called there, which some clients put before the names of its tools.
    """
    from mcp_bridge.dialects.linting import lint
    from mcp_bridge.dialects.table import PROFILES

    profile = next((one for one in PROFILES.values() if client.title == one.title), None)
    if profile is None:
        return []
    found = lint([tool for tool in tools if isinstance(tool, dict)], profile, server_name=server)
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
