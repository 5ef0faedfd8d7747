"""Toolboxes are objects with many tools, such as servers. A source keeps them open, and lists them after every change.

An adapter implements `Toolbox` for its framework. `publish_toolboxes` runs all toolboxes of a source, each in a task of
its own, to protect the others from its failures.
"""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import chain
from typing import Any, Self

import anyio
from anyio import to_thread

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._contracts.source import Offer, Publish
from mcp_bridge._contracts.tool import ToolEntry
from mcp_bridge._runtime.third_party import describe_error, is_own_cancellation

OPEN_TIMEOUT = 30.0
"""The seconds for opening and listing a toolbox."""
CLOSE_TIMEOUT = 10.0
"""The seconds for closing a toolbox."""
PlacedTool = tuple[str, ToolEntry]
"""The reference in the settings to a tool or its toolbox, and the tool."""
logger = logging.getLogger("mcp_bridge.frameworks")


class Toolbox(ABC):
    """An object with many tools, such as a server or a toolset. It is entered and exited once, in one task.

    `problems` has a line for each tool that `list_entries` has left out.
    """

    problems: Sequence[str] = ()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        return

    @abstractmethod
    async def list_entries(self) -> Sequence[ToolEntry]:
        """List the tools. Raises SourceError if that is not possible."""

    async def list_offer(self) -> Offer:
        """List everything that the toolbox offers; by default, its tools. Raises SourceError if that is impossible."""
        return Offer(tools=await self.list_entries())

    async def wait_for_change(self) -> None:
        """Return when the tools may have changed. By default, they never change."""
        await anyio.sleep_forever()


class Toolkit(Toolbox):
    """A set of tools without a connection. `list_tools` and `build_entry` run in a thread, because they may block."""

    def __init__(self, list_tools: Callable[[], Iterable[Any]], build_entry: Callable[[Any], ToolEntry]) -> None:
        self._list_tools = list_tools
        self._build_entry = build_entry

    async def list_entries(self) -> Sequence[ToolEntry]:
        """List the tools. An unpublishable tool is a problem."""
        return await to_thread.run_sync(self._build_entries, abandon_on_cancel=True)

    def _build_entries(self) -> list[ToolEntry]:
        entries, problems = [], []
        for tool in self._list_tools():
            try:
                entries.append(self._build_entry(tool))
            except SourceError as error:
                problems.append(str(error))
        self.problems = problems
        return entries


@asynccontextmanager
async def open_toolboxes(
    toolboxes: Mapping[str, Toolbox], timeout: float | None = OPEN_TIMEOUT
) -> AsyncIterator[OpenToolboxes]:
    """Keep toolboxes open during the block. It begins when all of them are listed. Their keys are their references.

    If opening and listing a toolbox takes longer than `timeout` seconds, it is closed.
    """
    group = OpenToolboxes(toolboxes, timeout)
    async with anyio.create_task_group() as tasks:
        for reference, toolbox in toolboxes.items():
            tasks.start_soon(group.keep_open, reference, toolbox)
        await group.wait_until_listed()
        yield group
        tasks.cancel_scope.cancel()


async def publish_toolboxes(
    toolboxes: Mapping[str, Toolbox],
    timeout: float | None,
    make_offer: Callable[[OpenToolboxes], Offer],
    publish: Publish,
) -> None:
    """Publish an offer now and after every change, until the last toolbox closes.

    Raises SourceError with all problems if nothing is left to publish.
    """
    async with open_toolboxes(toolboxes, timeout) as group:
        offer = make_offer(group)
        while group.is_open:
            publish(offer)
            await group.wait_for_change()
            offer = make_offer(group)
    if offer.problems and not offer.entries:
        raise SourceError("\n".join(offer.problems))
    publish(offer)


class OpenToolboxes:
    """The current tools and problems of several toolboxes. Each of them runs in a separate task."""

    def __init__(self, toolboxes: Mapping[str, Toolbox], timeout: float | None) -> None:
        self._timeout = math.inf if timeout is None else timeout
        self._offers: dict[str, Offer] = {reference: Offer() for reference in toolboxes}
        self._problems: dict[str, list[str]] = {reference: [] for reference in toolboxes}
        self._open = set(toolboxes)
        self._unlisted = set(toolboxes)
        self._all_listed = anyio.Event()
        self._change = anyio.Event()
        if not toolboxes:
            self._all_listed.set()

    @property
    def tools(self) -> list[PlacedTool]:
        tools: list[PlacedTool] = []
        for reference, offer in self._offers.items():
            tools += [(reference, entry) for entry in offer.tools]
        return tools

    @property
    def problems(self) -> list[str]:
        """A line for each toolbox that failed, and for each tool that cannot be published."""
        return list(chain.from_iterable(self._problems.values()))

    def add_to(self, offer: Offer) -> Offer:
        """Return the offer with the resources, templates, prompts and server of the toolboxes, without their tools."""
        for item in self._offers.values():
            offer = replace(
                offer,
                resources=[*offer.resources, *item.resources],
                templates=[*offer.templates, *item.templates],
                prompts=[*offer.prompts, *item.prompts],
                server=offer.server or item.server,
            )
        return offer

    @property
    def is_open(self) -> bool:
        return bool(self._open)

    async def wait_until_listed(self) -> None:
        await self._all_listed.wait()

    async def wait_for_change(self) -> None:
        """Wait until tools or problems have changed since the last return, or since all toolboxes were listed."""
        await self._change.wait()
        self._change = anyio.Event()

    async def keep_open(self, reference: str, toolbox: Toolbox) -> None:
        """Keep one toolbox open until this task is cancelled. An error of the toolbox becomes a problem."""
        with anyio.CancelScope(deadline=anyio.current_time() + self._timeout) as scope:
            try:
                async with toolbox:
                    await self._list_tools(reference, toolbox)
                    scope.deadline = math.inf
                    self._set_listed(reference)
                    await self._watch_changes(reference, toolbox)
            except BaseException as error:
                # Third-party code may raise any error.
                if is_own_cancellation(error):
                    raise
                self._close_failed(reference, f"'{reference}': {_format_error(error)}")
        if scope.cancelled_caught:
            problem = f"'{reference}' was not opened and listed within {self._timeout:g} seconds"
            self._close_failed(reference, f"{problem}. Check what it waits for, or raise start_timeout")

    async def _watch_changes(self, reference: str, toolbox: Toolbox) -> None:
        while True:
            await toolbox.wait_for_change()
            try:
                with anyio.fail_after(self._timeout):
                    await self._list_tools(reference, toolbox)
            except Exception as error:
                self._problems[reference] = [f"'{reference}': {_format_error(error)}: its tools stay as they were"]
            self._change.set()

    async def _list_tools(self, reference: str, toolbox: Toolbox) -> None:
        self._offers[reference] = await toolbox.list_offer()
        self._problems[reference] = [f"'{reference}': {line}" for line in toolbox.problems]

    def _close_failed(self, reference: str, problem: str) -> None:
        self._open.discard(reference)
        self._offers[reference], self._problems[reference] = Offer(), [problem]
        if reference in self._unlisted:
            self._set_listed(reference)
        else:
            self._change.set()

    def _set_listed(self, reference: str) -> None:
        self._unlisted.discard(reference)
        if not self._unlisted:
            self._all_listed.set()


def _format_error(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(_format_error(inner_error) for inner_error in error.exceptions)
    return str(error) if isinstance(error, SourceError) else describe_error(error)
