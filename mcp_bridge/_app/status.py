"""The status of a bridge: the states, numbers of entries and problems of its sources.

Clients read it as the resource `bridge://status`, if a source depends on a connection. The page shows it too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from typing import Any

from mcp_bridge._contracts.resource import ResourceEntry
from mcp_bridge._contracts.source import Source, SourceState
from mcp_bridge._engine.registry import ToolRegistry

STATUS_URI = "bridge://status"
_DESCRIPTION = "The states and problems of the servers behind this one. Read it when a tool is missing or unavailable."


class BridgeStatus:
    """Reports the states of sources. `pending` are the names of those that have published nothing yet."""

    def __init__(
        self,
        registry: ToolRegistry,
        sources: Sequence[Source],
        problems: Mapping[str, Sequence[str]],
        notes: Mapping[str, Sequence[str]],
        pending: AbstractSet[str],
    ) -> None:
        self._registry = registry
        self._sources = sources
        self._problems = problems
        self._notes = notes
        self._pending = pending
        self.entry = ResourceEntry(
            STATUS_URI,
            lambda _: {"sources": self.describe_sources()},
            "status",
            _DESCRIPTION,
            mime_type="application/json",
            owner=STATUS_URI,
        )

    @property
    def is_needed(self) -> bool:
        """Whether a source has a state that can change, so that clients can read it."""
        return any(source.status is not None for source in self._sources)

    @property
    def states(self) -> dict[str, SourceState]:
        """The state of each source, by name."""
        return {source.name: self._find_state(source) for source in self._sources}

    def describe_sources(self) -> list[dict[str, Any]]:
        """Return the name, state, counts and problems of each source."""
        return [self._describe_source(source) for source in self._sources]

    def _describe_source(self, source: Source) -> dict[str, Any]:
        row: dict[str, Any] = {"name": source.name, "state": self._find_state(source)}
        status = source.status
        if status is not None:
            since = datetime.fromtimestamp(status.since, UTC).isoformat(timespec="seconds")
            row |= {"reason": status.reason, "since": since, "failures": status.failures}
            row |= {"server": status.server, "version": status.version}
        problems = list(self._problems.get(source.name, ()))
        notes = list(self._notes.get(source.name, ()))
        return row | self._count_entries(source.name) | {"problems": problems, "notes": notes}

    def _find_state(self, source: Source) -> SourceState:
        if source.status is not None:
            return source.status.state
        if source.name in self._pending:
            return SourceState.STARTING
        if not self._problems.get(source.name):
            return SourceState.READY
        if any(self._count_entries(source.name).values()):
            return SourceState.DEGRADED
        return SourceState.BROKEN

    def _count_entries(self, name: str) -> dict[str, int]:
        registry = self._registry
        tables = {
            "tools": registry.list(),
            "resources": [*registry.resources, *registry.templates],
            "prompts": list(registry.prompts),
        }
        return {table: sum(entry.owner == name for entry in entries) for table, entries in tables.items()}
