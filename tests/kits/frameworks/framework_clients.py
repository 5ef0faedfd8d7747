"""Connects the official client to a bridge with objects of frameworks, such as tools and toolboxes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp.client import Client
from mcp_types import ElicitResult

from mcp_bridge._app.bridge import AttachedSource, Bridge
from mcp_bridge._contracts.source import Offer, Publish, Source
from mcp_bridge._integrations.frameworks.discovery import DiscoveredTools, remove_duplicates
from mcp_bridge._integrations.frameworks.toolboxes import open_toolboxes
from mcp_bridge.testing import connect


class ObjectSource(Source):
    """A source with these objects, which it converts as the Python source does."""

    name = "objects"

    def __init__(self, *things: Any) -> None:
        self._things = things

    async def run(self, publish: Publish) -> None:
        discovered = DiscoveredTools()
        for place, value in enumerate(self._things):
            assert discovered.add(f"thing {place}", value), f"not a known tool or toolbox: {value!r}"
        async with open_toolboxes(discovered.toolboxes) as toolbox:
            while True:
                tools, _ = remove_duplicates([*discovered.tools, *toolbox.tools])
                publish(toolbox.add_to(Offer(tools=tools, problems=[*discovered.problems, *toolbox.problems])))
                await toolbox.wait_for_change()


def build_bridge(*things: Any) -> Bridge:
    """Build a bridge with these objects."""
    return Bridge(sources=[AttachedSource(source=ObjectSource(*things))])


@asynccontextmanager
async def connect_to_objects(*things: Any, action: str | None = None, **options: Any) -> AsyncIterator[Client]:
    """Yield a client of a bridge with these objects. Its user answers forms with this action; None: it has no user."""

    async def answer_form(*_: Any) -> ElicitResult:
        return ElicitResult(action=action, content={} if action == "accept" else None)

    if action is not None:
        options["elicitation_callback"] = answer_form
    async with connect(build_bridge(*things), **options) as client:
        yield client


async def run_tool(client: Client, tool: str, **arguments: Any) -> tuple[str, bool]:
    """Return the text of the result of a tool, and whether it is an error."""
    result = await client.call_tool(tool, arguments)
    return "\n".join(block.text for block in result.content if block.type == "text"), bool(result.is_error)
