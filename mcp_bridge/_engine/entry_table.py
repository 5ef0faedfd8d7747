"""A table of named entries, which each owner replaces in one step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import replace
from operator import attrgetter
from typing import Any, Generic, Protocol, TypeVar, cast

from mcp_bridge._contracts.errors import DuplicateTool, RegistryError
from mcp_bridge._contracts.listing import BUILT_IN_TOOLS
from mcp_bridge._engine.look_alikes import to_look


class OwnedEntry(Protocol):
    """An entry with an owner, the source that published it."""

    owner: str


T = TypeVar("T", bound=OwnedEntry)
Listener = Callable[[], None]


class EntryTable(Generic[T]):
    """Entries by name. A reader sees an owner's offer completely or not at all.

    `version` increases with every change. `kind` names the entries in errors, `key` is the attribute with their name.
    `ranks` has the places of owners: which one gets a name must not depend on who publishes first. An owner that
    accepts that entries are left out (`select_free`) gives way to all others, and to earlier ones of its kind.
    `get` returns the entry of a name, or None.
    """

    get: Callable[[str], T | None]

    def __init__(self, kind: str = "Tool", key: str = "name") -> None:
        self.version = 0
        self.ranks: Mapping[str, int] = {}
        self._kind = kind
        self._has_looks = key == "name"  # resources have URIs, which are compared exactly
        self._key: Callable[[T], Any] = attrgetter(key)
        self._entries: dict[str, T] = {}
        self.get = self._entries.get  # the method of the dict itself: no call of Python is needed
        self._sorted: tuple[T, ...] | None = ()
        self._yielding: set[str] = set()
        self._listeners: dict[object, Listener] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._entries

    def __iter__(self) -> Iterator[T]:
        return iter(self.list_all())

    def list_all(self) -> tuple[T, ...]:
        """Return all entries, sorted by name; computed once per version."""
        if self._sorted is None:
            self._sorted = tuple(self._entries[name] for name in sorted(self._entries))
        return self._sorted

    def add(self, entry: T) -> None:
        """Add one entry. Raises DuplicateTool if the name already exists, RegistryError if it is not text."""
        name = self._key(entry)
        if not isinstance(name, str):
            raise RegistryError(f"The name of a {self._kind.lower()} must be text, found {name!r}.")
        if name in self._entries:
            raise DuplicateTool(
                f"{self._kind} '{name}' is already registered. Unregister it first or use a different name."
            )
        self._replace_entries({**self._entries, name: entry})

    def remove(self, name: str) -> bool:
        """Remove one entry; return whether there was one."""
        if name not in self._entries:
            return False
        self._replace_entries({key: entry for key, entry in self._entries.items() if key != name})
        return True

    def replace(self, owner: str, entries: Iterable[T]) -> None:
        """Replace all entries of an owner. Raises DuplicateTool, naming both owners, and then changes nothing."""
        self.prepare(owner, entries)[0]()

    def select_free(self, owner: str, entries: Iterable[T], problems: list[str]) -> list[T]:
        """Select the entries of an owner whose names are free, and add the problems of the others to `problems`."""
        free: dict[str, T] = {}
        self._yielding.add(owner)
        looks = self._list_looks(owner)
        for entry in entries:
            name = self._key(entry)
            if name in free:
                problems.append(self._format_clash(name, owner, owner))
            elif self._has_looks and name in BUILT_IN_TOOLS:
                problems.append(f"{self._kind} '{name}' has a name of the bridge itself. {_HINTS[self._kind]}")
            elif (other := self._find_other(name, looks, owner)) is not None:
                clash = self._format_clash(name, other.owner, owner, self._key(other))
                problems.append(f"{clash} That of {_format_owner(owner)} is not published.")
            else:
                free[name] = entry
        return list(free.values())

    def prepare(self, owner: str, entries: Iterable[T]) -> tuple[Callable[[], None], Set[str]]:
        """Check a replacement, and return a function that commits it and cannot fail: for several tables at once.

        Also returns the owners whose entries give way.
        """
        entries = list(entries)
        replaced = {name: entry for name, entry in self._entries.items() if entry.owner != owner}
        removed = self._list_yielding(owner, map(self._key, entries), replaced)
        owners = {replaced.pop(name).owner for name in removed}
        looks = self._list_looks(owner)
        for entry in entries:
            name = self._key(entry)
            if (other := replaced.get(name) or self._find_other(name, looks, owner)) is not None:
                raise DuplicateTool(self._format_clash(name, other.owner, owner, self._key(other)))
            replaced[name] = entry if entry.owner == owner else replace(cast("Any", entry), owner=owner)

        def commit() -> None:
            if replaced != self._entries:
                self._replace_entries(replaced)

        return commit, owners

    def watch(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` after every change, in the thread that made it. Returns a function to stop."""
        token = object()
        self._listeners[token] = listener
        return lambda: self._listeners.pop(token, None) and None

    def _replace_entries(self, entries: dict[str, T]) -> None:
        self._entries, self.get = entries, entries.get
        self.version += 1
        self._sorted = None
        for listener in list(self._listeners.values()):
            listener()

    def _list_looks(self, owner: str) -> dict[str, T]:
        """Return the entries of other sources by what their names look like; none where users do not choose by name."""
        if not self._has_looks:
            return {}
        others = ((name, entry) for name, entry in self._entries.items() if entry.owner != "")
        return {to_look(name): entry for name, entry in others if not self._yields(entry, owner)}

    def _list_yielding(self, owner: str, names: Iterable[str], others: Mapping[str, T]) -> list[str]:
        """List the names of other owners' entries that give way to entries of these names."""
        yielding = [name for name, entry in others.items() if self._yields(entry, owner)]
        taken = set(map(self._to_look, names)) if yielding else set()
        return [name for name in yielding if self._to_look(name) in taken]

    def _yields(self, entry: T, owner: str) -> bool:
        """Whether an entry does not keep its name if `owner` publishes an entry of the same name."""
        if entry.owner == owner:
            return True
        if entry.owner not in self._yielding:
            return False
        return owner not in self._yielding or self.ranks.get(entry.owner, 0) > self.ranks.get(owner, 0)

    def _to_look(self, name: str) -> str:
        return to_look(name) if self._has_looks else name

    def _find_other(self, name: str, looks: Mapping[str, T], owner: str) -> T | None:
        """Return the entry of another owner whose name is the same or looks the same, and that does not give way."""
        other = self._entries.get(name)
        if other is not None and not self._yields(other, owner):
            return other
        return looks.get(to_look(name)) if looks else None

    def _format_clash(self, name: str, one: str, other: str, known: str = "") -> str:
        if known not in ("", name):
            return (
                f"{self._kind} '{name}' of {_format_owner(other)} looks like '{known}' of {_format_owner(one)}. "
                f"{_HINTS[self._kind]}"
            )
        if one == other:
            return f"Two {self._kind.lower()}s in {_format_owner(one)} are named '{name}'. Rename one of them."
        return (
            f"{self._kind} '{name}' comes from both {_format_owner(one)} and {_format_owner(other)}. "
            f"{_HINTS.get(self._kind, 'Change one of them.')}"
        )


_HINTS = {
    "Tool": "Give one of the sources a prefix, or the tool an alias.",
    "Prompt": "Give one of the sources a prefix.",
}


def _format_owner(owner: str) -> str:
    return f"source '{owner}'" if owner else "the registry itself"
