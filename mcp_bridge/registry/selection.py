"""Selects which of a source's tools and prompts are published, and under which names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from mcp_bridge.contracts.prompt import PromptEntry
from mcp_bridge.contracts.tool import ToolEntry

SEPARATOR = "__"
"""Joins a prefix and a name, unless the prefix ends with a separator of its own."""
_SEPARATORS = ("_", "-", ".")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Patterns and tags that select tools, and their published names. All names in it are the tools' original ones."""

    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    tags: Sequence[str] = ()
    match_all_tags: bool = False
    prefix: str = ""
    alias: Mapping[str, str] = field(default_factory=dict)

    def select_tools(self, entries: Iterable[ToolEntry], owner: str) -> Iterator[ToolEntry]:
        """Yield copies of the selected entries with their published names and their owner."""
        for entry in entries:
            if self._is_selected(entry):
                yield replace(entry, name=self.alias.get(entry.name, self._add_prefix(entry.name)), owner=owner)

    def select_prompts(self, entries: Iterable[PromptEntry]) -> Iterator[PromptEntry]:
        """Yield the prompts with their published names. Patterns, tags and aliases apply to tools only."""
        for entry in entries:
            yield replace(entry, name=self._add_prefix(entry.name)) if self.prefix else entry

    def find_unknown_aliases(self, entries: Iterable[ToolEntry]) -> list[str]:
        """Return a problem for each alias of a tool that does not exist."""
        names = {entry.name for entry in entries}
        return [f"alias: there is no tool '{name}'" for name in self.alias if name not in names]

    def _add_prefix(self, name: str) -> str:
        has_separator = not self.prefix or self.prefix.endswith(_SEPARATORS)
        return f"{self.prefix}{'' if has_separator else SEPARATOR}{name}"

    def _is_selected(self, entry: ToolEntry) -> bool:
        if self.include and not any(fnmatchcase(entry.name, pattern) for pattern in self.include):
            return False
        if any(fnmatchcase(entry.name, pattern) for pattern in self.exclude):
            return False
        return has_tags(entry, self.tags, match_all=self.match_all_tags)


def has_tags(entry: ToolEntry, tags: Iterable[str], *, match_all: bool) -> bool:
    """Whether the tool has any of the tags or, with `match_all`, all of them. Without tags, every tool matches."""
    wanted = set(tags)
    return not wanted or (wanted <= set(entry.tags) if match_all else bool(wanted & set(entry.tags)))
