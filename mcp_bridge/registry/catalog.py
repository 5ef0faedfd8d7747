"""The catalog: named things by owner, replaced for each owner in one step, sorted by name, watched for changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from operator import attrgetter
from typing import Any, Generic, Protocol, TypeVar

from mcp_bridge.contracts.errors import DuplicateTool, RegistryError


class Owned(Protocol):
    """Anything with an owner: the source that published it."""

    owner: str


T = TypeVar("T", bound=Owned)
Listener = Callable[[], None]


class Catalog(Generic[T]):
    """Names to things. Readers see a whole offer or none of it; `version` grows with every change.

    `kind` is what the things are called in errors, `key` the attribute that names one.
    """

    def __init__(self, kind: str = "Tool", key: str = "name") -> None:
        self.version = 0
        self._kind = kind
        self._key: Callable[[T], Any] = attrgetter(key)
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
        name = self._key(thing)
        if not isinstance(name, str):
            raise RegistryError(f"A {self._kind.lower()}'s name is text, found {name!r}.")
        if name in self._things:
            raise DuplicateTool(
                f"{self._kind} '{name}' is already registered. Unregister it first or use a different name."
            )
        self._things = {**self._things, name: thing}
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
        self.prepare(owner, things)()

    def prepare(self, owner: str, things: Iterable[T]) -> Callable[[], None]:
        """`replace` in two steps, for who replaces in several catalogs at once: the second cannot fail."""
        kept = {name: thing for name, thing in self._things.items() if thing.owner != owner}
        for thing in things:
            name = self._key(thing)
            if (other := kept.get(name)) is not None:
                raise DuplicateTool(self._clash(name, other.owner, owner))
            kept[name] = thing if thing.owner == owner else _owned(thing, owner)

        def commit() -> None:
            if kept != self._things:
                self._things = kept
                self._changed()

        return commit

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

    def _clash(self, name: str, one: str, other: str) -> str:
        if one == other:
            return f"There are two {self._kind.lower()}s named '{name}' in {_called(one)}. Rename one of them."
        return (
            f"{self._kind} '{name}' comes from both {_called(one)} and {_called(other)}. "
            f"{_HINTS.get(self._kind, 'Change one of them.')}"
        )


_HINTS = {
    "Tool": "Give one of the sources a prefix, or the tool an alias.",
    "Prompt": "Give one of the sources a prefix.",
}


def _owned(thing: Any, owner: str) -> Any:
    return replace(thing, owner=owner)


def _called(owner: str) -> str:
    return f"source '{owner}'" if owner else "the registry itself"
