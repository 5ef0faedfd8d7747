"""Decides about the contents of tools/list: the tools of the server itself, and a selection if there are many tools."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from mcp_bridge._contracts.tool import ToolEntry

SEARCH_TOOLS = "search_tools"
CALL_TOOL = "call_tool"
LIST_RESOURCES = "list_resources"
READ_RESOURCE = "read_resource"
LIST_PROMPTS = "list_prompts"
GET_PROMPT = "get_prompt"
BUILT_IN_TOOLS = frozenset({SEARCH_TOOLS, CALL_TOOL, LIST_RESOURCES, READ_RESOURCE, LIST_PROMPTS, GET_PROMPT})
"""The names of the tools of the server itself. Sources cannot publish tools with these names."""


class BuiltInEntry(ToolEntry):
    """A tool of the server itself."""


class SearchPolicy(NamedTuple):
    """Shortens tools/list if there are more than `above` tools: only tools with a pattern in `keep` stay.

    Clients find and call the others with `search_tools` and `call_tool`.
    """

    above: int = 50
    keep: tuple[str, ...] = ()


class ToolListing(NamedTuple):
    """The contents of tools/list, in addition to the tools of the sources or instead of them.

    Attributes:
        search: Which tools are listed if there are many; None to list all of them.
        resources: Whether to list tools that read resources, for clients that use only tools.
        prompts: Whether to list tools that get prompts, for the same clients.
    """

    search: SearchPolicy | None = None
    resources: bool = False
    prompts: bool = False

    @property
    def built_in(self) -> tuple[str, ...]:
        """The names of the listed tools of the server itself."""
        names: tuple[str, ...] = ()
        if self.search is not None:
            names += (SEARCH_TOOLS, CALL_TOOL)
        if self.resources:
            names += (LIST_RESOURCES, READ_RESOURCE)
        if self.prompts:
            names += (LIST_PROMPTS, GET_PROMPT)
        return names

    def select_listed(self, names: Sequence[str]) -> Sequence[str]:
        """Return the names of the listed tools."""
        search = self.search
        if search is None or len(names) <= search.above:
            return names
        listed_names: list[str] = []
        for name in names:
            if any(fnmatchcase(name, pattern) for pattern in search.keep):
                listed_names.append(name)
        return listed_names


LIST_ALL = ToolListing()
"""Lists all tools of the sources, and no others."""
