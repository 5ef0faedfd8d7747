"""What a module is mounted on to be checked: a coordinator, hooks and a configuration that remember."""

from __future__ import annotations

from collections.abc import Callable, Iterator, KeysView
from dataclasses import dataclass
from typing import Any

from mcp_bridge.amplifier.hooks import Handler, HookRegistry
from mcp_bridge.amplifier.session import is_provider, is_tool
from mcp_bridge.amplifier.testing import TestCoordinator

EVENTS_CHANNEL = "observability.events"


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """A handler as it was registered."""

    event: str
    handler: Handler
    priority: int
    name: str


class Watched(HookRegistry):
    """Hooks that remember who was registered, and how."""

    def __init__(self) -> None:
        super().__init__(timeout=None)
        self.made: list[Registered] = []

    def register(self, event: str, handler: Handler, priority: int = 0, name: str | None = None) -> Callable[[], None]:
        """Register, and remember it."""
        unregister = super().register(event, handler, priority, name)
        known = str(name or getattr(handler, "__name__", type(handler).__name__))
        self.made.append(Registered(event=event, handler=handler, priority=priority, name=known))
        return unregister

    on = register


class Bench(TestCoordinator):
    """A coordinator whose cleanups are the checker's to call."""

    def __init__(self) -> None:
        super().__init__()
        self.watched = Watched()
        self.hooks = self.mount_points["hooks"] = self.watched
        self.cleanups: list[Callable[[], Any]] = []

    def register_cleanup(self, cleanup: Any) -> None:
        """Remember it."""
        if callable(cleanup):
            self.cleanups.append(cleanup)

    def take(self, answer: Any) -> str:
        """Do with what `mount` has answered what a session does; what is odd about it, or nothing."""
        for point, fits in (("tools", is_tool), ("providers", is_provider)):
            if fits(answer):
                if not any(answer is one for one in self.get(point).values()):
                    self.mount(point, answer)
                return ""
        if answer is None or any(answer is one for one in self.get("session").values()):
            return ""
        if callable(answer):
            self.register_cleanup(answer)
            return ""
        return f"`mount` answers with a {type(answer).__name__}"

    def modules(self, kind: str) -> dict[str, Any]:
        """What is mounted of a type, by name; of hooks the handlers."""
        if kind == "hook":
            return {f"{one.name} on {one.event}": one for one in self.watched.made}
        if kind in {"tool", "provider"}:
            return dict(self.get(f"{kind}s"))
        found = self.get(kind)
        return {} if found is None else {kind: found}


class Config(dict[str, Any]):
    """A configuration that remembers which keys were read; `*` is all of them."""

    def __init__(self, given: dict[str, Any]) -> None:
        super().__init__(given)
        self.read: set[str] = set()

    def __bool__(self) -> bool:
        self.read.add("*")  # as in `config or {}`, which puts another in its place
        return len(self) > 0

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.read.add(str(key))
        return super().__contains__(key)

    def __iter__(self) -> Iterator[str]:
        self.read.add("*")
        return super().__iter__()

    def get(self, key: str, default: Any = None) -> Any:
        """A value, or the default."""
        self.read.add(key)
        return super().get(key, default)

    def pop(self, key: str, *default: Any) -> Any:
        """Take a value out."""
        self.read.add(key)
        return super().pop(key, *default)

    def setdefault(self, key: str, default: Any = None) -> Any:
        """A value; it is the default from now on where there was none."""
        self.read.add(key)
        return super().setdefault(key, default)

    def keys(self) -> KeysView[str]:  # type: ignore[override]
        """The keys: whoever copies a configuration may read any of it later."""
        self.read.add("*")
        return super().keys()

    def items(self) -> Any:
        """Keys and values."""
        self.read.add("*")
        return super().items()

    def copy(self) -> dict[str, Any]:
        """A plain one."""
        self.read.add("*")
        return dict(super().items())
