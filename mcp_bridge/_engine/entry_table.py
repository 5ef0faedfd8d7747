"""A table of named entries, which each owner replaces in one step.

Several sources publish into one table, in any order and again after each change. A name belongs to one entry, so two
rules decide between sources. A source of the user's own has to have all its names: a name that another one has is an
error, and nothing changes (`prepare`). A source whose tools third parties name gives way instead: `select_free` leaves
out its entries with such names, and they are removed when another source publishes the name later. Between two sources
that both give way, the place in the settings (`ranks`) decides, not the time of publication. Names of different
sources that look alike count as the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import replace
from operator import attrgetter
from typing import Any, Generic, Protocol, TypeVar, cast

from mcp_bridge._contracts.errors import DuplicateTool, RegistryError
from mcp_bridge._contracts.listing import BUILT_IN_TOOLS
from mcp_bridge._engine.look_alikes import to_look


class OwnedEntry(Protocol):
    """An entry with an owner, its source."""

    owner: str


T = TypeVar("T", bound=OwnedEntry)
Listener = Callable[[], None]


class EntryTable(Generic[T]):
    """Entries by name. Readers in other threads see all entries of a publication or none.

    Args:
        entry_type: The word for an entry in errors.
        key: The attribute of entries with their name.

    Attributes:
        version: A number, increased by every change.
        ranks: The places of owners in the settings.
        get: Returns the entry with a name, or None.
    """

    get: Callable[[str], T | None]

    def __init__(self, entry_type: str = "Tool", key: str = "name") -> None:
        self.version = 0
        self.ranks: Mapping[str, int] = {}
        self._entry_type = entry_type
        # URIs are compared exactly, names by their look.
        self._has_looks = key == "name"
        self._key: Callable[[T], Any] = attrgetter(key)
        self._entries: dict[str, T] = {}
        # This is the method of the dict itself, so that a look-up calls no Python function.
        self.get = self._entries.get
        self._sorted: tuple[T, ...] | None = ()
        # The owners that give way to others.
        self._yielding: set[str] = set()
        self._listeners: dict[object, Listener] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._entries

    def __iter__(self) -> Iterator[T]:
        return iter(self.list_all())

    def list_all(self) -> tuple[T, ...]:
        """Return all entries, sorted by name. They are sorted once per version."""
        if self._sorted is None:
            entries = self._entries.copy()
            self._sorted = tuple(entries[name] for name in sorted(entries))
        return self._sorted

    def add(self, entry: T) -> None:
        """Add one entry. Raises DuplicateTool if the name already exists, RegistryError if it is not text."""
        name = self._key(entry)
        if not isinstance(name, str):
            raise RegistryError(f"The name of a {self._entry_type.lower()} must be text, found {name!r}.")
        if name in self._entries:
            raise DuplicateTool(
                f"{self._entry_type} '{name}' is already registered. Unregister it first or use a different name."
            )
        # A copy of the dict for each entry would make the registration of many tools quadratic. All readers that
        # iterate copy the dict first, because another thread may call this.
        self._entries[name] = entry
        self._report_change()

    def remove(self, name: str) -> bool:
        """Remove one entry; return whether there was one."""
        if name not in self._entries:
            return False
        self._replace_entries({key: entry for key, entry in self._entries.copy().items() if key != name})
        return True

    def replace(self, owner: str, entries: Iterable[T]) -> None:
        """Replace all entries of an owner. Raises DuplicateTool with both owners, and then changes nothing."""
        commit, _ = self.prepare(owner, entries)
        commit()

    def select_free(self, owner: str, entries: Iterable[T], problems: list[str]) -> list[T]:
        """Select the entries of an owner whose names are free, and describe the others in `problems`.

        From now on, this owner gives way to others.
        """
        free: dict[str, T] = {}
        self._yielding.add(owner)
        looks = self._list_looks(owner)
        for entry in entries:
            name = self._key(entry)
            if name in free:
                problems.append(self._format_clash(name, owner, rival_name=name, rival_owner=owner))
            elif self._has_looks and name in BUILT_IN_TOOLS:
                problems.append(
                    f"{self._entry_type} '{name}' has a name of the bridge itself. {_HINTS[self._entry_type]}"
                )
            elif (rival := self._find_rival(name, looks, owner)) is not None:
                clash = self._format_clash(name, owner, rival_name=self._key(rival), rival_owner=rival.owner)
                problems.append(f"{clash} That of {_format_owner(owner)} is not published.")
            else:
                free[name] = entry
        return list(free.values())

    def prepare(self, owner: str, entries: Iterable[T]) -> tuple[Callable[[], None], Set[str]]:
        """Check the replacement of all entries of an owner, and return a function to commit it.

        The commit cannot fail, so several tables can change together: all of them check first, and then all commit.
        Also returns the other owners with lost entries. Raises DuplicateTool.
        """
        entries = list(entries)
        new_entries = {name: entry for name, entry in self._entries.copy().items() if entry.owner != owner}
        yielding_names = self._list_yielding(owner, map(self._key, entries), new_entries)
        losing_owners = {new_entries.pop(name).owner for name in yielding_names}
        looks = self._list_looks(owner)
        for entry in entries:
            name = self._key(entry)
            # Two of the new entries have this name, or an entry of another owner has it or one that looks alike.
            rival = new_entries.get(name)
            if rival is None:
                rival = self._find_rival(name, looks, owner)
            if rival is not None:
                clash = self._format_clash(name, owner, rival_name=self._key(rival), rival_owner=rival.owner)
                raise DuplicateTool(clash)
            new_entries[name] = entry if entry.owner == owner else replace(cast("Any", entry), owner=owner)

        def commit() -> None:
            if new_entries != self._entries:
                self._replace_entries(new_entries)

        return commit, losing_owners

    def watch(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` after every change, in the thread that made it. Returns a function to stop."""
        token = object()
        self._listeners[token] = listener

        def stop() -> None:
            self._listeners.pop(token, None)

        return stop

    def _replace_entries(self, entries: dict[str, T]) -> None:
        self._entries = entries
        self.get = entries.get
        self._report_change()

    def _report_change(self) -> None:
        self.version += 1
        self._sorted = None
        for listener in list(self._listeners.values()):
            listener()

    def _list_looks(self, owner: str) -> dict[str, T]:
        """Return the entries of other sources that keep their names, by the look of these names."""
        looks: dict[str, T] = {}
        if not self._has_looks:
            return looks
        for name, entry in self._entries.copy().items():
            # Entries without an owner are those that a program has registered itself.
            if entry.owner != "" and not self._yields(entry, owner):
                looks[to_look(name)] = entry
        return looks

    def _list_yielding(self, owner: str, names: Iterable[str], entries: Mapping[str, T]) -> list[str]:
        """List the names of those `entries` that `owner` displaces by publishing `names`."""
        yielding_names = [name for name, entry in entries.items() if self._yields(entry, owner)]
        if not yielding_names:
            return []
        looks = set(map(self._to_look, names))
        return [name for name in yielding_names if self._to_look(name) in looks]

    def _yields(self, entry: T, owner: str) -> bool:
        """Whether an entry loses its name if `owner` publishes an entry with the same name."""
        if entry.owner == owner:
            return True
        if entry.owner not in self._yielding:
            return False
        return owner not in self._yielding or self.ranks.get(entry.owner, 0) > self.ranks.get(owner, 0)

    def _to_look(self, name: str) -> str:
        return to_look(name) if self._has_looks else name

    def _find_rival(self, name: str, looks: Mapping[str, T], owner: str) -> T | None:
        """Return the entry that prevents `owner` from using a name: it has the same name or look and does not yield."""
        entry = self._entries.get(name)
        if entry is not None and not self._yields(entry, owner):
            return entry
        return looks.get(to_look(name)) if looks else None

    def _format_clash(self, name: str, owner: str, *, rival_name: str, rival_owner: str) -> str:
        entry_type = self._entry_type
        rival_source = _format_owner(rival_owner)
        source = _format_owner(owner)
        hint = _HINTS.get(entry_type, "Change one of them.")
        if rival_name != name:
            return f"{entry_type} '{name}' of {source} looks like '{rival_name}' of {rival_source}. {hint}"
        if rival_owner == owner:
            return f"Two {entry_type.lower()}s in {source} are named '{name}'. Rename one of them."
        return f"{entry_type} '{name}' comes from both {rival_source} and {source}. {hint}"


_HINTS = {
    "Tool": "Give one of the sources a prefix, or the tool an alias.",
    "Prompt": "Give one of the sources a prefix.",
}


def _format_owner(owner: str) -> str:
    return f"source '{owner}'" if owner else "the registry itself"
