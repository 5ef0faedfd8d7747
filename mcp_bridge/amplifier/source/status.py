"""A source's state as resources: what is mounted in the caller's session, and what its modules contribute."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from mcp_bridge.amplifier.coordinator import NAMED_POINTS, ModuleCoordinator
from mcp_bridge.amplifier.session import ModuleState, Session
from mcp_bridge.amplifier.source.addresses import shown
from mcp_bridge.amplifier.source.contributions import collected, contributors
from mcp_bridge.amplifier.source.sessions import Sessions
from mcp_bridge.contracts.context import CallContext
from mcp_bridge.contracts.errors import CallError
from mcp_bridge.contracts.resource import ResourceEntry
from mcp_bridge.runtime.third_party import described, passes

JSON = "application/json"


class Status:
    """The resources of a source. Nobody reads of another client's session, apart from how many there are."""

    def __init__(self, name: str, sessions: Sessions) -> None:
        where = f"amplifier://{quote(name, safe='')}"
        self._name = name
        self._sessions = sessions
        self.uri = f"{where}/status"
        self.entries = (
            ResourceEntry(
                self.uri,
                self._status,
                f"{name} status",
                "The Amplifier modules of this session: what is mounted, what has failed, and who hears which events.",
                mime_type=JSON,
            ),
            ResourceEntry(
                f"{where}/contributions",
                self._contributions,
                f"{name} contributions",
                "What the Amplifier modules of this session contribute to their channels, collected when it is read.",
                mime_type=JSON,
            ),
        )

    async def _status(self, _: Any, ctx: CallContext) -> dict[str, Any]:
        try:
            session: dict[str, Any] | None = told(await self._sessions.of(ctx))
        except CallError:  # there is no room for one; that is what the counts say
            session = None
        keeping = self._sessions.keeping
        counts = {"in_use": self._sessions.in_use, "most": keeping.most, "shared": keeping.shared}
        return {"source": self._name, "sessions": counts, "session": session}

    async def _contributions(self, _: Any, ctx: CallContext) -> dict[str, Any]:
        coordinator = (await self._sessions.of(ctx)).coordinator
        channels = {channel: await collected(coordinator, channel) for channel in contributors(coordinator)}
        return {"source": self._name, "session": str(coordinator.session_id), "channels": channels}


def told(session: Session) -> dict[str, Any]:
    """A session, as its client may read of it."""
    coordinator = session.coordinator
    capabilities = coordinator.to_dict().get("capabilities", ())
    return {
        "id": str(coordinator.session_id),
        "parent_id": coordinator.parent_id,
        "host": host_of(coordinator),
        "modules": [_module(state) for state in session.states],
        "problems": list(session.problems),
        "orchestrator": _kind(coordinator.get("orchestrator")),
        "context": _kind(coordinator.get("context")),
        **{point: dict(_mounted(coordinator.get(point))) for point in NAMED_POINTS},
        "hooks": {
            event: [{"name": one.name, "priority": one.priority} for one in registered]
            for event, registered in sorted(session.hooks.registrations().items())
        },
        "capabilities": sorted(map(str, capabilities)),
        "channels": {channel: [name for name, _ in given] for channel, given in contributors(coordinator).items()},
        "stats": {"calls": session.stats.calls, "errors": session.stats.errors},
    }


def host_of(coordinator: Any) -> str:
    """Whose coordinator it is: `native`, or `core` for that of amplifier-core."""
    return "native" if isinstance(coordinator, ModuleCoordinator) else "core"


def _module(state: ModuleState) -> dict[str, Any]:
    spec = state.spec
    source = shown(spec.source) if isinstance(spec.source, str) else _kind(spec.source)
    told = {"module": spec.module, "kind": spec.kind, "source": source}
    return {**told, "mounted": not state.problem, "problem": state.problem or None}


def _mounted(mounted: Any) -> Iterator[tuple[str, str | None]]:
    """Mount keys, and the names that what is mounted there gives itself."""
    for key, one in dict(mounted or {}).items():
        try:
            yield str(key), str(getattr(one, "name", None) or key)
        except BaseException as error:  # a stranger's property
            if passes(error):
                raise
            yield str(key), described(error)


def _kind(thing: Any) -> str | None:
    """What kind of thing it is; None for nothing."""
    return None if thing is None else type(thing).__name__
