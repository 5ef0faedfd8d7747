"""Which framework an object is of. It is told by its shape, so that nothing has to be installed or imported."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Protocol, cast

from mcp_bridge.contracts.tool import ToolEntry
from mcp_bridge.frameworks.shapes import package_of
from mcp_bridge.frameworks.toolbox import Toolbox


class ToolShape(Protocol):
    """A file for a framework whose objects are single tools."""

    def fits(self, thing: object) -> bool:
        """Whether an object is a tool of this framework. Never raises, and runs nothing of the object's own."""
        ...

    def entry_of(self, thing: object) -> ToolEntry:
        """The tool. Raises SourceError for one that cannot be published, saying why."""
        ...


class ToolboxShape(Protocol):
    """A file for a framework, or a part of one, whose objects have many tools."""

    def fits(self, thing: object) -> bool:
        """Whether an object is one of these. Never raises, and runs nothing of the object's own."""
        ...

    def toolbox_of(self, thing: object) -> Toolbox:
        """Its tools, once it is entered. Raises SourceError for what cannot be had."""
        ...


TOOLS = ("langchain", "llamaindex", "crewai", "smolagents", "openai_agents", "pydantic_tool", "llm")
"""The files of single tools; the first that fits is taken."""
TOOLBOXES = ("pydantic_toolset", "fastmcp", "utcp", "toolkits")
KNOWN = (
    "tools of LangChain, LlamaIndex, CrewAI, smolagents, OpenAI Agents, pydantic-ai and llm, and sets of tools: "
    "toolkits of these, toolboxes of llm, toolsets of pydantic-ai, FastMCP servers, UTCP manuals"
)
"""What is known, in words for people."""
_OURS = __name__.partition(".")[0]


def is_foreign(thing: object) -> bool:
    """Whether an object may be a framework's at all: neither Python's own nor ours. Costs next to nothing."""
    package = package_of(type(thing))
    return package != _OURS and package not in sys.stdlib_module_names


def entry_of(thing: object) -> ToolEntry | None:
    """A framework's tool as an entry; None for what is none. Raises SourceError."""
    for name in TOOLS:
        shape = cast("ToolShape", _file(name))
        if shape.fits(thing):
            return shape.entry_of(thing)
    return None


def toolbox_of(thing: object) -> Toolbox | None:
    """A framework's set of tools; None for what is none. Raises SourceError."""
    for name in TOOLBOXES:
        shape = cast("ToolboxShape", _file(name))
        if shape.fits(thing):
            return shape.toolbox_of(thing)
    return None


def _file(name: str) -> object:
    return import_module(f"mcp_bridge.frameworks.{name}")
