"""Detects changes that no call causes, while a page is open: of tools, sources and quarantined definitions."""

from __future__ import annotations

import asyncio
from typing import Any

from mcp_bridge._web.feed import EventFeed
from mcp_bridge._web.state import ServerState

INTERVAL = 1.0
"""Seconds between two comparisons. Sources emit no events, and a second is short enough for people."""


class ChangeMonitor:
    """Compares the state of the server once a second, and sends what has changed to the feed."""

    def __init__(self, state: ServerState, feed: EventFeed) -> None:
        self._state = state
        self._feed = feed
        self._timer: asyncio.TimerHandle | None = None
        self._tools = 0
        self._rows: dict[tuple[str, str], dict[str, Any]] = {}

    def set_running(self, is_running: bool) -> None:
        """Start comparing with the current state, or stop."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if is_running:
            self._tools, self._rows = self._state.tools_version, self._read_rows()
            self._timer = asyncio.get_running_loop().call_later(INTERVAL, self._compare)

    def _compare(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(INTERVAL, self._compare)
        if self._tools != self._state.tools_version:
            self._tools = self._state.tools_version
            self._feed.send("tools", {"version": self._tools})
        rows = self._read_rows()
        for key, row in rows.items():
            if row != self._rows.get(key):
                self._feed.send(key[0], row if key[0] == "source" else {}, is_public=False)  # only operators see them
        self._rows = rows

    def _read_rows(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Return what is compared: the name of its event and its own name, and the row."""
        rows = {("source", row["name"]): row for row in self._state.list_sources()}
        pending = {row["source"] + "/" + row["tool"]: row["fingerprint"] for row in self._state.list_pending()}
        return {**rows, ("quarantine", ""): {"pending": pending}}
