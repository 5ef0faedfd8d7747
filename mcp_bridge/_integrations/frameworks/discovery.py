"""Finds the tools and toolboxes of frameworks among the objects that the settings name.

A framework is recognised by the class of the object, so it need not be installed, and its adapter is imported only
once an object of it is found.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from importlib import import_module
from types import ModuleType
from typing import Any, cast

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._contracts.tool import ToolEntry
from mcp_bridge._integrations.frameworks.common import get_package, is_a
from mcp_bridge._integrations.frameworks.toolboxes import PlacedTool, Toolbox
from mcp_bridge._runtime.third_party import describe_error, is_own_cancellation

TOOLS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("langchain_core", ("BaseTool",), "langchain"),
    ("llama_index", ("BaseTool",), "llamaindex"),
    ("crewai", ("BaseTool", "CrewStructuredTool"), "crewai"),
    ("smolagents", ("Tool",), "smolagents"),
    ("agents", ("FunctionTool",), "openai_agents"),
    ("pydantic_ai", ("Tool",), "pydantic_ai"),
    ("llm", ("Tool",), "llm"),
)
"""Package and classes of single tools, and the adapter whose `build_entry` takes them."""
TOOLBOXES: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("pydantic_ai", ("AbstractToolset",), "pydantic_ai"),
    ("fastmcp", ("FastMCP",), "fastmcp"),
    ("mcp", ("MCPServer",), "mcp_server"),
    ("utcp", ("UtcpManual",), "utcp.calls"),
    ("mcp_bridge", ("Manual",), "utcp.calls"),
    ("langchain_core", ("BaseToolkit",), "langchain"),
    ("llama_index", ("BaseToolSpec",), "llamaindex"),
    ("smolagents", ("ToolCollection",), "smolagents"),
    ("llm", ("Toolbox",), "llm"),
)
"""The same for sets of tools, which the adapter's `build_toolbox` takes."""
SERVERS: tuple[tuple[str, tuple[str, ...]], ...] = (("fastmcp", ("FastMCP",)), ("mcp", ("MCPServer",)))
"""Packages and classes of servers. A server is published without being named in `tools`."""
KNOWN = (
    "tools of LangChain, LlamaIndex, CrewAI, smolagents, OpenAI Agents, pydantic-ai and llm, and sets of tools: "
    "toolkits of these, toolboxes of llm, toolsets of pydantic-ai, FastMCP and MCPServer servers, UTCP manuals"
)
"""What is supported, for error messages."""
_OWN_PACKAGE = __name__.partition(".")[0]


class DiscoveredTools:
    """Tools, toolboxes by their reference, and a line for each problem. An object counts once, however often named."""

    def __init__(self) -> None:
        self.tools: list[PlacedTool] = []
        self.toolboxes: dict[str, Toolbox] = {}
        self.problems: list[str] = []
        self._seen: dict[int, object] = {}

    def add(self, where: str, thing: object) -> bool:
        """Add a tool, a toolbox, or a list, tuple, set or mapping of them. Return False for anything else.

        A tool that cannot be published, and any other object in a list, becomes a problem.
        """
        if self.add_tool(where, thing) or self._add_once(where, thing, self._add_toolbox):
            return True
        items = list(_iter_items(where, thing))
        for place, item in items:
            if not self.add(place, item):
                self.problems.append(describe_unknown(place, item))
        return bool(items)

    def add_tool(self, where: str, thing: object) -> bool:
        return self._add_once(where, thing, self._add_entry)

    def _add_once(self, where: str, thing: object, add: Callable[[str, object], bool]) -> bool:
        """Add an object, unless it was added before. An error of its framework is a problem of this object alone."""
        if id(thing) in self._seen:
            return True
        try:
            added = add(where, thing)
        except BaseException as error:  # third-party code may raise any error
            if is_own_cancellation(error):
                raise
            self.problems.append(f"'{where}': {error if isinstance(error, SourceError) else describe_error(error)}")
            added = True
        if added:
            self._seen[id(thing)] = thing
        return added

    def _add_entry(self, where: str, thing: object) -> bool:
        entry = cast("ToolEntry", thing) if issubclass(type(thing), ToolEntry) else convert_tool(thing)
        if entry is not None:
            self.tools.append((where, entry))
        return entry is not None

    def _add_toolbox(self, where: str, thing: object) -> bool:
        toolbox = convert_toolbox(thing)
        if toolbox is not None:
            self.toolboxes[where] = toolbox
        return toolbox is not None


def is_foreign(thing: object) -> bool:
    """Return whether an object may belong to a framework: its class is neither Python's nor ours. Cheap."""
    package = get_package(type(thing))
    return package != _OWN_PACKAGE and package not in sys.stdlib_module_names


def is_server(thing: object) -> bool:
    """Return whether an object is a server of FastMCP or of the MCP SDK. Cheap."""
    return any(is_a(thing, package, *classes) for package, classes in SERVERS)


def convert_tool(thing: object) -> ToolEntry | None:
    """Return the tool of a framework as an entry, None for anything else. Raises SourceError."""
    adapter = _find_adapter(thing, TOOLS)
    return cast("ToolEntry", adapter.build_entry(thing)) if adapter is not None else None


def convert_toolbox(thing: object) -> Toolbox | None:
    """Return the set of tools of a framework as a toolbox, None for anything else. Raises SourceError."""
    is_manual = type(thing) is dict and "utcp_version" in thing and "tools" in thing
    adapter = _import_adapter("utcp.calls") if is_manual else _find_adapter(thing, TOOLBOXES)
    return cast("Toolbox", adapter.build_toolbox(thing)) if adapter is not None else None


def describe_unknown(where: str, thing: Any) -> str:
    """Return a line about an object that is neither a tool nor a set of tools: what it is, and what is supported."""
    kind = type(thing)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    if issubclass(kind, type):
        name = f"the class {thing.__module__}.{thing.__qualname__}, which cannot be called without arguments"
    elif issubclass(kind, Sequence | AbstractSet | Mapping) and not thing:
        name = f"empty ({name})"
    return f"'{where}' is not a tool of a framework but {name}. Supported are {KNOWN}"


def remove_duplicates(
    tools: Iterable[PlacedTool], taken: Mapping[str, str] | None = None
) -> tuple[list[ToolEntry], list[str]]:
    """Return the first tool of each name, and a line for each other one; `taken` maps names in use to their owners."""
    owners, entries, problems = dict(taken or {}), [], []
    for where, entry in tools:
        if entry.name not in owners:
            owners[entry.name] = where
            entries.append(entry)
            continue
        both = f"'{owners[entry.name]}' and '{where}' both have a tool"
        if owners[entry.name] == where:
            both = f"'{where}' has two tools"
        problems.append(f"{both} named '{entry.name}'. The first is published. Rename or remove one")
    return entries, problems


def _find_adapter(thing: object, table: Iterable[tuple[str, tuple[str, ...], str]]) -> ModuleType | None:
    names = (adapter for package, classes, adapter in table if is_a(thing, package, *classes))
    return next(map(_import_adapter, names), None)


def _import_adapter(name: str) -> ModuleType:
    return import_module(f"mcp_bridge._integrations.frameworks.{name}")


def _iter_items(where: str, thing: Any) -> Iterator[tuple[str, object]]:
    kind = type(thing)  # isinstance would run code of the object
    if issubclass(kind, Mapping):
        yield from ((f"{where}[{key!r}]", item) for key, item in thing.items())
    elif issubclass(kind, list | tuple | set | frozenset):
        yield from ((f"{where}[{index}]", item) for index, item in enumerate(thing))
