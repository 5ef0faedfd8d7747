"""Selects the published tools and prompts of a source, and chooses their names.

The settings of a source have a selection: `include`, `exclude`, `tags`, `prefix`, `alias` and `overrides`.
"""

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
"""Joins a prefix and a name, unless the prefix already ends with one of `_PREFIX_ENDS`."""
_PREFIX_ENDS = ("_", "-", ".")


class Selection(NamedTuple):
    """Selects tools by patterns and tags, and changes their names and definitions.

    Patterns and keys are the original names of tools, before a prefix or an alias.
    """

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
            if not self._is_selected(original):
                continue
            entry = original
            override = self.overrides.get(original.name)
            # An unlisted tool is a placeholder whose calls fail. It has no arguments that an override could change.
            if override is not None and original.is_listed:
                try:
                    entry = override.apply(original)
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
        """Return a problem for each name in the selection without a tool. Patterns may match nothing yet."""
        tool_names = {entry.name for entry in entries}
        names_by_key = {
            "include": self.include, "exclude": self.exclude, "alias": self.alias, "overrides": self.overrides,
        }  # fmt: skip
        problems = []
        for key, names in names_by_key.items():
            for name in names:
                if name not in tool_names and not _is_pattern(key, name):
                    problems.append(f"{key}: there is no tool '{name}'")
        return problems

    def may_publish(self, name: str) -> bool:
        """Whether a tool of this selection may have this published name. Without a prefix, any name is possible."""
        return name in self.alias.values() or name.startswith(self._add_prefix(""))

    def _add_prefix(self, name: str) -> str:
        if not self.prefix or self.prefix.endswith(_PREFIX_ENDS):
            return f"{self.prefix}{name}"
        return f"{self.prefix}{SEPARATOR}{name}"

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
    if not tag_set:
        return True
    if match_all:
        return tag_set <= set(entry.tags)
    return not tag_set.isdisjoint(entry.tags)
