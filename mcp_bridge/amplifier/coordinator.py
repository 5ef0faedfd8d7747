"""ModuleCoordinator: what modules mount on, and find each other by (the entry points of all contracts)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from uuid import uuid4

from mcp_bridge.amplifier.cancellation import CancellationToken
from mcp_bridge.amplifier.guarded import CLEANUP, Cleanup, Guarded
from mcp_bridge.amplifier.hooks import HookRegistry
from mcp_bridge.amplifier.mounts import NAMED, SINGLE, Points

__all__ = ["CLEANUP", "ModuleCoordinator"]


class ModuleCoordinator(Guarded):
    """The mount points, hooks, capabilities and contributions of one session. Modules may keep attributes on it.

    `config` is the mount plan. `changed` is called whenever a provider or a tool comes or goes.
    """

    def __init__(
        self,
        session: Any = None,
        approval_system: Any = None,
        display_system: Any = None,
        *,
        config: dict[str, Any] | None = None,
        session_id: str | None = None,
        parent_id: str | None = None,
        hooks: HookRegistry | None = None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.session = session
        self.session_id = session_id or getattr(session, "session_id", None) or uuid4().hex
        self.parent_id = parent_id or getattr(session, "parent_id", None)
        self.config: dict[str, Any] = config or getattr(session, "config", None) or {}
        self.approval_system = approval_system
        self.display_system = display_system
        self.hooks = hooks or HookRegistry()
        self.hooks.set_default_fields(session_id=self.session_id, parent_id=self.parent_id)
        self.cancellation = CancellationToken()
        self.loader: Any = None
        self.session_state: dict[str, Any] = {}
        self.channels: dict[str, list[tuple[str, Callable[[], Any]]]] = {}
        self.mount_points: dict[str, Any] = Points(self.hooks, changed)
        self._capabilities: dict[str, Any] = {}
        self._wanted: dict[str, Callable[[Any], None]] = {}
        self._cleanups: list[Cleanup] = []

    def register_capability(self, name: str, value: Any) -> None:
        """Let other modules find something by name."""
        self._capabilities[name] = value
        if name in self._wanted:
            self._wanted[name](value)

    def get_capability(self, name: str) -> Any:
        """What a module has registered, or None."""
        return self._capabilities.get(name)

    def register_contributor(self, channel: str, name: str, callback: Callable[[], Any]) -> None:
        """Contribute to a channel, whenever it is collected; one name contributes once."""
        others = [entry for entry in self.channels.get(channel, []) if entry[0] != name]
        self.channels[channel] = [*others, (name, callback)]

    def contributors(self, channel: str) -> Iterable[tuple[str, Callable[[], Any]]]:
        """Who contributes to a channel."""
        return self.channels.get(channel, [])

    def to_dict(self) -> dict[str, Any]:
        """Who is here, by name."""
        return {
            "session_id": self.session_id,
            "parent_id": self.parent_id,
            **{point: sorted(self.mount_points[point]) for point in NAMED},
            **{point: self.mount_points[point] is not None for point in SINGLE},
            "capabilities": sorted(self._capabilities),
        }

    def marks(self) -> list[Any]:
        """What modules have left beside the mount points, to be compared: capabilities, contributors, cleanups."""
        contributors = [(channel, name) for channel, entries in self.channels.items() for name, _ in entries]
        capabilities = {name: id(value) for name, value in self._capabilities.items()}
        return [capabilities, contributors, len(self._cleanups), dict.fromkeys(self.session_state)]
