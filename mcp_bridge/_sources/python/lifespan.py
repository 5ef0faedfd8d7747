"""Runs the lifespan of a Python file, and gives its value to the tools, resources and prompts of the file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar

from mcp_bridge._contracts.prompt import PromptEntry
from mcp_bridge._contracts.resource import ResourceEntry, ResourceTemplate
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.source import Offer
from mcp_bridge._contracts.tool import ToolEntry
from mcp_bridge._engine.prepared import PreparedEntry

E = TypeVar("E", ToolEntry, ResourceEntry, ResourceTemplate, PromptEntry)


@asynccontextmanager
async def run_with_lifespan(offer: Offer) -> AsyncIterator[Offer]:
    """Enter the lifespan of an offer, and yield the offer. Its calls get the value of the lifespan as `ctx.lifespan`.

    Raises SourceError if the lifespan cannot start.
    """
    if offer.server is None or offer.server.lifespan is None:
        yield offer
        return
    from mcp_bridge._runtime.lifespan import open_lifespan

    async with open_lifespan(offer.server.lifespan) as value:
        yield replace(
            offer,
            tools=[_bind_lifespan(entry, value) for entry in offer.tools],
            resources=[_bind_lifespan(entry, value) for entry in offer.resources],
            templates=[_bind_lifespan(entry, value) for entry in offer.templates],
            prompts=[_bind_lifespan(entry, value) for entry in offer.prompts],
        )


def _bind_lifespan(entry: E, value: Any) -> E:
    """Return an entry whose handler gets the value as `ctx.lifespan`. One that takes no context stays the same."""
    prepared_entry = PreparedEntry(entry)
    if prepared_entry.context is None:
        return entry
    handler = prepared_entry.handler
    bound: Callable[..., Any]
    # The bound handler has to be async exactly if the handler is, because sync handlers run in threads.
    if prepared_entry.is_async:

        async def run_bound_async(data: Any, ctx: RunningCall) -> Any:
            ctx.lifespan = value
            return await handler(data, ctx)

        bound = run_bound_async
    else:

        def run_bound(data: Any, ctx: RunningCall) -> Any:
            ctx.lifespan = value
            return handler(data, ctx)

        bound = run_bound
    return replace(entry, handler=bound)
