"""Mount points: what modules have mounted, also where they write to them directly."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Self

from mcp_bridge.amplifier.errors import MountCollision

AGENT = ("orchestrator", "context")
"""Mount points that the contracts also call `session`, told apart by name."""
SINGLE = (*AGENT, "module-source-resolver")
"""Mount points that hold one thing."""
NAMED = ("providers", "tools")
"""Mount points that hold things by name."""
SESSION = "session"
"""What the contracts call these."""


class Named(dict[str, Any]):
    """What is mounted by name at a point. `changed` is called after every change, whoever makes it.

    Nothing takes the place of another silently: who wants that takes the other away first.
    """

    def __init__(self, point: str, changed: Callable[[], None]) -> None:
        super().__init__()
        self._point = point
        self._changed = changed

    def __setitem__(self, name: str, module: Any) -> None:
        """Mount one. Raises MountCollision where another has the name."""
        if name in self and self[name] is not module:
            raise MountCollision(self._point, name)
        super().__setitem__(name, module)
        self._changed()

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self._changed()

    def pop(self, *args: Any) -> Any:
        """Take one away."""
        taken = super().pop(*args)
        self._changed()
        return taken

    def popitem(self) -> tuple[str, Any]:
        """Take the last one away."""
        taken = super().popitem()
        self._changed()
        return taken

    def update(self, *args: Any, **more: Any) -> None:
        """Mount several."""
        for name, module in dict(*args, **more).items():
            self[name] = module

    def __ior__(self, others: Any) -> Self:  # type: ignore[override,misc]
        self.update(others)
        return self

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Mount one unless there is one."""
        if name not in self:
            self[name] = default
        return self[name]

    def clear(self) -> None:
        """Take all away."""
        super().clear()
        self._changed()


class Points(dict[str, Any]):
    """The mount points of one coordinator. Who writes a dict where things are mounted by name mounts what is in it."""

    def __init__(self, hooks: Any, changed: Callable[[], None]) -> None:
        super().__init__(dict.fromkeys(SINGLE), hooks=hooks, **{point: Named(point, changed) for point in NAMED})

    def __setitem__(self, point: str, value: Any) -> None:
        if point not in NAMED:
            super().__setitem__(point, value)
        elif value is not self[point]:
            given = dict(value)
            self[point].clear()
            self[point].update(given)


class Done:
    """The answer of what has been done already: it may be awaited, and need not be."""

    def __await__(self) -> Generator[Any, None, None]:
        yield from ()


def point_of(point: str, name: str | None) -> tuple[str, str | None]:
    """A mount point by its real name: `session` with a name is the mount point of that name."""
    if point == SESSION and name in AGENT:
        return str(name), None
    return point, name
