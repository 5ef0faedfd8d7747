"""The catalog: named things by owner, replaced for each owner in one step, sorted by name, watched for changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from mcp_bridge.contracts.errors import DuplicateTool, RegistryError


class Named(Protocol):
    """Anything with a name and an owner."""

    name: str
    owner: str


T = TypeVar("T", bound=Named)
Listener = Callable[[], None]


class Catalog(Generic[T]):
    """Names to things. Readers see a whole offer or none of it; `version` grows with every change."""

    def __init__(self) -> None:
        self.version = 0
        self._things: dict[str, T] = {}
        self._sorted: tuple[T, ...] | None = ()
        self._listeners: dict[object, Listener] = {}

    def __len__(self) -> int:
        return len(self._things)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._things

    def __iter__(self) -> Iterator[T]:
        return iter(self.all())

    def get(self, name: str) -> T | None:
        """The thing of exactly this name, or None."""
        return self._things.get(name)

    def all(self) -> tuple[T, ...]:
        """Everything, sorted by name; computed once for each version."""
        if self._sorted is None:
            self._sorted = tuple(self._things[name] for name in sorted(self._things))
        return self._sorted

    def add(self, thing: T) -> None:
        """Add one thing. Raises DuplicateTool when the name is taken, RegistryError when it is no text."""
        if not isinstance(thing.name, str):
            raise RegistryError(f"A tool's name is text, found {thing.name!r}.")
        if thing.name in self._things:
            raise DuplicateTool(
                f"Tool '{thing.name}' is already registered. Unregister it first or use a different name."
            )
        self._things = {**self._things, thing.name: thing}
        self._changed()

    def remove(self, name: str) -> bool:
        """Remove one thing; whether there was one."""
        if name not in self._things:
            return False
        self._things = {key: thing for key, thing in self._things.items() if key != name}
        self._changed()
        return True

    def replace(self, owner: str, things: Iterable[T]) -> None:
        """Make these the owner's things, all at once. Raises DuplicateTool, naming both owners, and changes nothing."""
        kept = {name: thing for name, thing in self._things.items() if thing.owner != owner}
        for thing in things:
            if (other := kept.get(thing.name)) is not None:
                raise DuplicateTool(_clash(other, thing))
            kept[thing.name] = thing
        if kept != self._things:
            self._things = kept
            self._changed()

    def watch(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` after every change, in the changing thread; the answer stops that."""
        token = object()
        self._listeners[token] = listener
        return lambda: self._listeners.pop(token, None) and None

    def _changed(self) -> None:
        self.version += 1
        self._sorted = None
        for listener in list(self._listeners.values()):
            listener()


def _clash(one: Named, other: Named) -> str:
    if one.owner == other.owner:
        return f"There are two tools named '{one.name}' in {_owner(one)}. Rename one of them."
    return (
        f"Tool '{one.name}' comes from both {_owner(one)} and {_owner(other)}. "
        "Give one of the sources a prefix, or the tool an alias."
    )


def _owner(thing: Named) -> str:
    return f"source '{thing.owner}'" if thing.owner else "the registry itself"
