"""The state of the server, which a page reads before it follows the events.

`ServerState` describes it, and `ChangeMonitor` sends its changes to the pages. The calls are in `history.py`.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Iterator
from io import StringIO
from typing import TYPE_CHECKING, Any

from mcp_bridge._json_schema.secret_names import describe_secret_names
from mcp_bridge._protocol.wire.redacted_values import redact_values
from mcp_bridge._protocol.wire.values import to_plain
from mcp_bridge._runtime.redaction import Redactor
from mcp_bridge._version import __version__
from mcp_bridge._web.call_rows import describe_latency, render_call, render_client
from mcp_bridge._web.feed import EventFeed
from mcp_bridge._web.history import CallHistory, CallRecord
from mcp_bridge._web.subject import PageSubject
from mcp_bridge._web.viewer import Viewer

if TYPE_CHECKING:
    from mcp_bridge._settings import Settings

SHOWN_CALLS = 200
"""The number of the latest calls in the state."""
INTERVAL = 1.0
"""Seconds between two comparisons of the state. Sources emit no events, and a second is short enough for users."""


class ServerState:
    """Describes a server to pages. Expensive parts are computed again only after the tools have changed."""

    def __init__(self, subject: PageSubject, history: CallHistory) -> None:
        self._subject = subject
        self._history = history
        self._started = time.time()
        self._findings: list[dict[str, Any]] = []
        # The version of the tools that the findings are about.
        self._linted_version: int | None = None

    @property
    def entries_version(self) -> int:
        """A number that increases with every change of the tools, resources and prompts."""
        registry = self._subject.endpoint.registry
        tables = (registry.tools, registry.resources, registry.templates, registry.prompts)
        return sum(table.version for table in tables)

    def list_owners(self) -> dict[str, str]:
        """Return the source of each tool, by the name of the tool."""
        names = {source.name for source in self._subject.sources}
        return {entry.name: entry.owner for entry in self._subject.endpoint.registry.list() if entry.owner in names}

    def summarize_server(self, viewer: Viewer) -> dict[str, Any]:
        """Return the presentation of the server, its process, and for operators its file and its clients."""
        identity = self._subject.get_identity()
        row: dict[str, Any] = {
            "name": identity.name,
            "title": identity.title,
            "version": identity.version,
            "instructions": self._subject.redactor.redact_text(identity.instructions or ""),
            "uptime_s": round(time.time() - self._started, 1),
            "pid": os.getpid(),
            "bridge": __version__,
            "secret_names": describe_secret_names(),
            "file": None,
            "connected": None,
        }
        if viewer.is_operator:
            row |= {"file": self._subject.file, "connected": self._subject.count_connected()}
        return row

    def list_sources(self) -> list[dict[str, Any]]:
        """List the sources with their states."""
        subject = self._subject
        times = {source.name: source.status.since for source in subject.sources if source.status is not None}
        rows: list[dict[str, Any]] = []
        for row in subject.describe_sources():
            name = str(row["name"])
            rows.append({"type": subject.types.get(name, ""), **row, "since": times.get(name, self._started)})
        redacted_rows: list[dict[str, Any]] = subject.redactor.redact_value(rows)
        return redacted_rows

    def list_clients(self, viewer: Viewer) -> list[dict[str, Any]]:
        """List the connected clients, and those with calls in the history."""
        rows = [render_client(row) for row in self._history.list_clients() if viewer.can_see(row.principal)]
        redacted_rows: list[dict[str, Any]] = self._subject.redactor.redact_value(rows)
        return redacted_rows

    def select_calls(self, viewer: Viewer) -> list[CallRecord]:
        """Return the latest calls and all running ones, the latest first."""
        visible = [record for record in self._history.list_records() if viewer.can_see(record.principal)]
        return visible[:SHOWN_CALLS] + [record for record in visible[SHOWN_CALLS:] if record.seconds is None]

    def render_calls(self, records: Iterable[CallRecord]) -> list[dict[str, Any]]:
        """Return calls as JSON. Large values take long, so call this in a thread."""
        return [render_call(record, self._subject.redactor) for record in records]

    def describe_latency(self, viewer: Viewer) -> dict[str, Any]:
        """Return the counts and durations of each tool."""
        return describe_latency(record for record in self._history.list_ended() if viewer.can_see(record.principal))

    def list_pending(self) -> list[dict[str, Any]]:
        """List the definitions of tools that wait until an operator accepts them."""
        # Only upstreams have a status, and only they need the import.
        if all(source.status is None for source in self._subject.sources):
            return []
        from mcp_bridge._web.quarantine import list_pending

        return list_pending(self._subject.sources, self._subject.redactor)

    def describe_settings(self) -> dict[str, Any] | None:
        """Return the loaded settings without defaults and secrets; None if the server has none."""
        settings = self._subject.settings
        if settings is None:
            return None
        path = str(settings.path) if settings.path.is_file() else None
        return {"path": path, "text": render_settings(settings, self._subject.redactor)}

    def list_findings(self) -> list[dict[str, Any]]:
        """List the tools that known clients would reject or degrade. Linting takes long, so call this in a thread."""
        version = self.entries_version
        if self._linted_version != version:
            self._findings = list(_lint_tools(self._subject))
            self._linted_version = version
        return self._findings


class ChangeMonitor:
    """Compares the state of the server once a second, and sends the changes to the feed."""

    def __init__(self, state: ServerState, feed: EventFeed) -> None:
        self._state = state
        self._feed = feed
        self._timer: asyncio.TimerHandle | None = None
        self._entries_version = 0
        self._rows: dict[tuple[str, str], dict[str, Any]] = {}

    def set_running(self, is_running: bool) -> None:
        """Start comparing with the current state, or stop."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if is_running:
            self._entries_version = self._state.entries_version
            self._rows = self._read_rows()
            self._timer = asyncio.get_running_loop().call_later(INTERVAL, self._compare)

    def _compare(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(INTERVAL, self._compare)
        if self._entries_version != self._state.entries_version:
            self._entries_version = self._state.entries_version
            self._feed.send("tools", {"version": self._entries_version})
        # Only operators see these events.
        rows = self._read_rows()
        for key, row in rows.items():
            if row != self._rows.get(key):
                name, _ = key
                self._feed.send(name, row if name == "source" else {}, is_public=False)
        self._rows = rows

    def _read_rows(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Return the rows to compare, each by the name of its event and the name of its source."""
        rows = {("source", row["name"]): row for row in self._state.list_sources()}
        pending = {f"{row['source']}/{row['tool']}": row["fingerprint"] for row in self._state.list_pending()}
        rows["quarantine", ""] = {"pending": pending}
        return rows


def _lint_tools(subject: PageSubject) -> Iterator[dict[str, Any]]:
    from mcp_bridge._protocol.dialects.linting import lint
    from mcp_bridge._protocol.dialects.rewriting import render_tools
    from mcp_bridge._protocol.dialects.table import PROFILES

    registry, identity = subject.endpoint.registry, subject.get_identity()
    tools = render_tools(registry.list(), subject.dialect)
    listing = identity.listing
    count = len(listing.select_listed(registry.list_names())) + len(listing.built_in)
    options: dict[str, Any] = {
        "server_name": identity.name,
        "dialect": subject.dialect,
        "result": identity.result,
        "count": count,
    }
    for profile in PROFILES.values():
        for finding in lint(tools, profile, **options):
            if finding.level != "note":
                yield {
                    "client": finding.client,
                    "tool": finding.tool,
                    "rule": finding.rule,
                    "text": f"{finding.text}. {finding.cure}",
                    "severity": finding.level,
                    "path": finding.path,
                    "dialect": finding.dialect or None,
                }


def render_settings(settings: Settings, redactor: Redactor) -> str:
    """Return the settings as YAML, without defaults and without secrets."""
    from ruamel.yaml import YAML

    data = settings.model_dump(mode="json", exclude_defaults=True)
    if "sources" in data:
        # In the settings file, the options of a source are next to its other keys.
        for source in data["sources"]:
            source.update(source.pop("options", {}))
    stream = StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.dump(redact_values(to_plain(data), Redactor(settings.secrets), redactor), stream)
    return stream.getvalue()
