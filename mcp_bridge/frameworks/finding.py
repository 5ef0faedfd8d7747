"""Which tools of frameworks, and sets of them, stand behind names in the settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, cast

from mcp_bridge.contracts.errors import SourceError
from mcp_bridge.contracts.tool import ToolEntry
from mcp_bridge.frameworks import recognising
from mcp_bridge.frameworks.toolbox import Toolbox
from mcp_bridge.runtime.third_party import described, passes

Placed = tuple[str, ToolEntry]
"""A tool, and what it was named by."""


class Finds:
    """What has been found so far: tools, toolboxes by what named them, and a line for each problem.

    Each object counts once, however often it is named.
    """

    def __init__(self) -> None:
        self.tools: list[Placed] = []
        self.boxes: dict[str, Toolbox] = {}
        self.problems: list[str] = []
        self._seen: dict[int, object] = {}

    def add(self, where: str, thing: object) -> bool:
        """Take in a tool, a set of tools, or a list, tuple, set or mapping of them; False for what is none of these.

        One that cannot be published is a problem, and so is one in a list that is none.
        """
        if id(thing) in self._seen:
            return True
        if self._one(where, thing):
            self._seen[id(thing)] = thing
            return True
        items = list(_items(where, thing))
        for place, item in items:
            if not self.add(place, item):
                self.problems.append(unknown(place, item))
        return bool(items)

    def add_tool(self, where: str, thing: object) -> bool:
        """Take in a single tool; False for anything else."""
        if id(thing) in self._seen:
            return True
        taken = self._guarded(where, thing, self._tool)
        if taken:
            self._seen[id(thing)] = thing
        return taken

    def _one(self, where: str, thing: object) -> bool:
        return self._guarded(where, thing, self._tool) or self._guarded(where, thing, self._box)

    def _guarded(self, where: str, thing: object, take: Callable[[str, object], bool]) -> bool:
        """A framework's own trouble with its object is a problem of this object alone."""
        try:
            return take(where, thing)
        except BaseException as error:  # a stranger's property
            if passes(error):
                raise
            self.problems.append(f"'{where}': {error if isinstance(error, SourceError) else described(error)}")
            return True

    def _tool(self, where: str, thing: object) -> bool:
        entry = cast("ToolEntry", thing) if issubclass(type(thing), ToolEntry) else recognising.entry_of(thing)
        if entry is not None:
            self.tools.append((where, entry))
        return entry is not None

    def _box(self, where: str, thing: object) -> bool:
        box = recognising.toolbox_of(thing)
        if box is not None:
            self.boxes[where] = box
        return box is not None


def unknown(where: str, thing: Any) -> str:
    """A line for what is neither a tool nor a set of tools: what it is, and what is known."""
    kind = type(thing)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    if issubclass(kind, type):
        name = f"the class {thing.__module__}.{thing.__qualname__}, which cannot be made without arguments"
    elif issubclass(kind, Sequence | AbstractSet | Mapping) and not thing:
        name = f"empty ({name})"
    return f"'{where}' is no tool of a framework but {name}. Known are {recognising.KNOWN}"


def distinct(tools: Iterable[Placed], taken: Mapping[str, str] | None = None) -> tuple[list[ToolEntry], list[str]]:
    """Of tools of one name the first, and a line for each other; `taken` has names that are gone, by whom."""
    owners, kept, problems = dict(taken or {}), [], []
    for where, entry in tools:
        if entry.name not in owners:
            owners[entry.name] = where
            kept.append(entry)
            continue
        both = f"'{owners[entry.name]}' and '{where}' both have a tool"
        if owners[entry.name] == where:
            both = f"'{where}' has two tools"
        problems.append(f"{both} named '{entry.name}'. Rename one, or leave one out; the first is published")
    return kept, problems


def _items(where: str, thing: Any) -> Iterator[tuple[str, object]]:
    kind = type(thing)  # `isinstance` would ask the thing, too
    if issubclass(kind, Mapping):
        yield from ((f"{where}[{key!r}]", item) for key, item in thing.items())
    elif issubclass(kind, list | tuple | set | frozenset):
        yield from ((f"{where}[{index}]", item) for index, item in enumerate(thing))
