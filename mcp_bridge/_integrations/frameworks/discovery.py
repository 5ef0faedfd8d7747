"""Finds the tools and toolboxes of frameworks among the objects in the settings.

A framework is recognised by the name and the package of an object's class, so it need not be installed. Its adapter is
imported with the first object.
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
"""For each framework, the package and the classes of its tools, and the adapter with their `build_entry`."""
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
"""The same for sets of tools. The adapter converts them with `build_toolbox`."""
SERVERS: tuple[tuple[str, tuple[str, ...]], ...] = (("fastmcp", ("FastMCP",)), ("mcp", ("MCPServer",)))
"""The packages and classes of servers. The source of Python files publishes such a server in a file."""
KNOWN = (
    "tools of LangChain, LlamaIndex, CrewAI, smolagents, OpenAI Agents, pydantic-ai and llm, and sets of tools: "
    "toolkits of these, toolboxes of llm, toolsets of pydantic-ai, FastMCP and MCPServer servers, UTCP manuals"
)
"""What is supported, for error messages."""
_OWN_PACKAGE = __name__.partition(".")[0]


class DiscoveredTools:
    """The tools and toolboxes found so far, and a line for each problem.

    `toolboxes` has their references in the settings as keys. A repeated object is ignored.
    """

    def __init__(self) -> None:
        self.tools: list[PlacedTool] = []
        self.toolboxes: dict[str, Toolbox] = {}
        self.problems: list[str] = []
        # The objects by their ids. As long as an object is here, no other object gets its id.
        self._seen: dict[int, object] = {}

    def add(self, reference: str, value: object) -> bool:
        """Add a tool, a toolbox, or a list, tuple, set or mapping of them. Return False for anything else.

        A tool that cannot be published, and any other object in a list, becomes a problem. `reference` names the object
        in problems.
        """
        if self.add_tool(reference, value) or self._add_once(reference, value, self._add_toolbox):
            return True
        items = list(_iter_items(reference, value))
        for item_reference, item in items:
            if not self.add(item_reference, item):
                self.problems.append(describe_unknown(item_reference, item))
        return bool(items)

    def add_tool(self, reference: str, value: object) -> bool:
        return self._add_once(reference, value, self._add_entry)

    def _add_once(self, reference: str, value: object, add: Callable[[str, object], bool]) -> bool:
        """Add an object, unless it was added before. If its framework raises an error, only this object is lost."""
        if id(value) in self._seen:
            return True
        try:
            is_known = add(reference, value)
        except BaseException as error:
            # Third-party code may raise any error.
            if is_own_cancellation(error):
                raise
            text = str(error) if isinstance(error, SourceError) else describe_error(error)
            self.problems.append(f"'{reference}': {text}")
            is_known = True
        if is_known:
            self._seen[id(value)] = value
        return is_known

    def _add_entry(self, reference: str, value: object) -> bool:
        # `isinstance` could run code of the object, through its `__class__`.
        if issubclass(type(value), ToolEntry):
            entry: ToolEntry | None = cast("ToolEntry", value)
        else:
            entry = convert_tool(value)
        if entry is not None:
            self.tools.append((reference, entry))
        return entry is not None

    def _add_toolbox(self, reference: str, value: object) -> bool:
        toolbox = convert_toolbox(value)
        if toolbox is not None:
            self.toolboxes[reference] = toolbox
        return toolbox is not None


def is_foreign(value: object) -> bool:
    """Return whether an object may belong to a framework. Its class is neither Python's nor one of this package.

    This test is fast enough for every value in a module.
    """
    package = get_package(type(value))
    return package != _OWN_PACKAGE and package not in sys.stdlib_module_names


def is_server(value: object) -> bool:
    """Return whether an object is a server of FastMCP or of the MCP SDK."""
    return any(is_a(value, package, *classes) for package, classes in SERVERS)


def convert_tool(value: object) -> ToolEntry | None:
    """Return the tool of a framework as an entry; None for anything else. Raises SourceError."""
    adapter = _find_adapter(value, TOOLS)
    if adapter is None:
        return None
    return cast("ToolEntry", adapter.build_entry(value))


def convert_toolbox(value: object) -> Toolbox | None:
    """Return the set of tools of a framework as a toolbox; None for anything else. Raises SourceError."""
    adapter = _find_adapter(value, TOOLBOXES)
    # A UTCP manual can be a plain dict.
    if type(value) is dict and "utcp_version" in value and "tools" in value:
        adapter = _import_adapter("utcp.calls")
    if adapter is None:
        return None
    return cast("Toolbox", adapter.build_toolbox(value))


def describe_unknown(reference: str, value: Any) -> str:
    """Return a problem for an object that is neither a tool nor a set of tools."""
    value_class = type(value)
    name = value_class.__qualname__
    if value_class.__module__ != "builtins":
        name = f"{value_class.__module__}.{name}"
    if issubclass(value_class, type):
        # The source calls a class without required arguments, and adds the object instead.
        name = f"the class {value.__module__}.{value.__qualname__}, which cannot be called without arguments"
    elif issubclass(value_class, Sequence | AbstractSet | Mapping) and not value:
        name = f"empty ({name})"
    return f"'{reference}' is not a tool of a framework but {name}. Supported are {KNOWN}"


def remove_duplicates(
    tools: Iterable[PlacedTool], used_names: Mapping[str, str] | None = None
) -> tuple[list[ToolEntry], list[str]]:
    """Return the first tool of each name, and a problem for each further tool of the name.

    `used_names` are the names of other tools, with the owners of these tools.
    """
    owners = dict(used_names or {})
    entries = []
    problems = []
    for reference, entry in tools:
        if entry.name not in owners:
            owners[entry.name] = reference
            entries.append(entry)
            continue
        if owners[entry.name] == reference:
            beginning = f"'{reference}' has two tools"
        else:
            beginning = f"'{owners[entry.name]}' and '{reference}' both have a tool"
        problems.append(f"{beginning} named '{entry.name}'. The first is published. Rename or remove one")
    return entries, problems


def _find_adapter(value: object, table: Iterable[tuple[str, tuple[str, ...], str]]) -> ModuleType | None:
    for package, classes, adapter in table:
        if is_a(value, package, *classes):
            return _import_adapter(adapter)
    return None


def _import_adapter(name: str) -> ModuleType:
    return import_module(f"mcp_bridge._integrations.frameworks.{name}")


def _iter_items(reference: str, value: Any) -> Iterator[tuple[str, object]]:
    """Yield the items of a mapping, list, tuple or set, each with its reference, such as `tools[0]`."""
    # `isinstance` could run code of the object, through its `__class__`.
    value_class = type(value)
    if issubclass(value_class, Mapping):
        yield from ((f"{reference}[{key!r}]", item) for key, item in value.items())
    elif issubclass(value_class, list | tuple | set | frozenset):
        yield from ((f"{reference}[{index}]", item) for index, item in enumerate(value))
