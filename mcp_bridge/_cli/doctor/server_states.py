"""Checks of the servers behind a bridge, by its status resource."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import anyio

from mcp_bridge._app.status import STATUS_URI
from mcp_bridge._cli.doctor.conversation import Conversation
from mcp_bridge._cli.doctor.report import CheckResult
from mcp_bridge._cli.output import format_count

NOT_CONNECTED = "the server is not connected: "
PATIENCE, INTERVAL = 30.0, 0.2
"""Seconds that servers may take to start, and between two readings of their states."""


async def check_servers(conversation: Conversation, params: dict[str, Any]) -> list[CheckResult]:
    """Wait until the servers behind a bridge have started, and return a result for each. Raises ServerFault."""
    deadline = time.monotonic() + PATIENCE
    while True:
        rows = _read_rows(await conversation.request("resources/read", {**params, "uri": STATUS_URI}))
        if time.monotonic() > deadline or all(row.get("state") != "starting" for row in rows):
            return list(_check_rows(rows))
        await anyio.sleep(INTERVAL)


def _read_rows(result: dict[str, Any]) -> list[dict[str, Any]]:
    try:
        rows: list[dict[str, Any]] = json.loads(result["contents"][0]["text"])["sources"]
    except (KeyError, IndexError, TypeError, ValueError):
        return []  # the resource is not ours
    return [row for row in rows if "server" in row]


def _check_rows(rows: list[dict[str, Any]]) -> Iterator[CheckResult]:
    for row in rows:
        check = f"server '{row['name']}'"
        if row["state"] == "ready":
            label = " ".join(filter(None, (row["server"], row["version"])))
            yield CheckResult(
                check, True, f"ready{f', {label}' if label else ''}, {format_count(row['tools'], 'tool')}"
            )
        else:
            advice = "Its tools are missing or not up to date. The other servers are served."
            yield CheckResult(check, False, f"{row['state']}: {row['reason']}", advice)
