"""Selects the published tools and prompts of a source, and their names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_bridge._contracts.prompt import PromptEntry
from mcp_bridge._contracts.tool import ToolEntry

if TYPE_CHECKING:
    from mcp_bridge._engine.overrides import ToolOverride

SEPARATOR = "__"
"""Joins a prefix and a name, unless the prefix ends with a separator of its own."""
_SEPARATORS = ("_", "-", ".")


class Selection(NamedTuple):
    """Patterns and tags to select tools, and their published names. All names in it are the tools' original ones."""

    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    tags: Sequence[str] = ()
    prefix: str = ""
    alias: Mapping[str, str] = MappingProxyType({})
    overrides: Mapping[str, ToolOverride] = MappingProxyType({})

    def dump(self) -> dict[str, Any]:
        """Return the selection as JSON, for a worker process."""
        overrides = {
            name: {**asdict(override), "hidden": sorted(override.hidden)} for name, override in self.overrides.items()
        }
        return {**self._asdict(), "alias": dict(self.alias), "overrides": overrides}

    @classmethod
    def restore(cls, dumped: Mapping[str, Any]) -> Selection:
        """Return a dumped selection."""
        if not dumped.get("overrides"):
            return cls(**dumped)
        from mcp_bridge._engine.overrides import ToolOverride

        overrides = {
            name: ToolOverride(**{**override, "hidden": frozenset(override["hidden"])})
            for name, override in dumped["overrides"].items()
        }
        return cls(**{**dumped, "overrides": overrides})

    def select_tools(
        self, entries: Iterable[ToolEntry], owner: str, problems: list[str] | None = None
    ) -> Iterator[ToolEntry]:
        """Yield copies of the selected entries with their published names, their overrides and their owner.

        A tool with an invalid override is left out, and described in `problems`.
        """
        for original in entries:
            if self._is_selected(original):
                try:
                    override = self.overrides.get(original.name) if original.is_listed else None
                    entry = original if override is None else override.apply(original)
                except ValueError as error:
                    if problems is not None:
                        problems.append(f"overrides: tool '{original.name}' is not published: {error}")
                    continue
                yield replace(entry, name=self.choose_name(entry.name), owner=owner, original_name=entry.name)

    def choose_name(self, name: str) -> str:
        """Return the published name of a tool."""
        return self.alias.get(name, self._add_prefix(name))

    def select_prompts(self, entries: Iterable[PromptEntry]) -> Iterator[PromptEntry]:
        """Yield the prompts with their published names. Patterns, tags and aliases apply to tools only."""
        for entry in entries:
            yield replace(entry, name=self._add_prefix(entry.name)) if self.prefix else entry

    def find_unknown_tools(self, entries: Iterable[ToolEntry]) -> list[str]:
        """Return a problem for each unknown name of a tool. Patterns may match nothing yet."""
        names = {entry.name for entry in entries}
        given = {"include": self.include, "exclude": self.exclude, "alias": self.alias, "overrides": self.overrides}
        unknown = ((key, name) for key, each in given.items() for name in each if name not in names)
        return [f"{key}: there is no tool '{name}'" for key, name in unknown if not _is_pattern(key, name)]

    def may_publish(self, name: str) -> bool:
        """Whether tools of this published name can only be of this selection: it has the prefix, or it is an alias."""
        return name in self.alias.values() or bool(self.prefix and name.startswith(self._add_prefix("")))

    def _add_prefix(self, name: str) -> str:
        has_separator = not self.prefix or self.prefix.endswith(_SEPARATORS)
        return f"{self.prefix}{'' if has_separator else SEPARATOR}{name}"

    def _is_selected(self, entry: ToolEntry) -> bool:
        if self.include and not any(fnmatchcase(entry.name, pattern) for pattern in self.include):
            return False
        if any(fnmatchcase(entry.name, pattern) for pattern in self.exclude):
            return False
        return has_tags(entry, self.tags)


def _is_pattern(key: str, name: str) -> bool:
    return key in ("include", "exclude") and any(character in name for character in "*?[")


def has_tags(entry: ToolEntry, tags: Iterable[str], *, match_all: bool = False) -> bool:
    """Whether the tool has any of the tags or, with `match_all`, all of them. Without tags, every tool matches."""
    tag_set = set(tags)
    return not tag_set or (tag_set <= set(entry.tags) if match_all else bool(tag_set & set(entry.tags)))
