"""Toolboxes kept open, each in a task of its own, and listed again when they have changed."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import anyio

from mcp_bridge.contracts.errors import SourceError
from mcp_bridge.contracts.extension import Publish
from mcp_bridge.contracts.offer import Offer
from mcp_bridge.frameworks.finding import Placed
from mcp_bridge.frameworks.toolbox import Toolbox
from mcp_bridge.runtime.third_party import described, passes

PATIENCE = 30.0
"""How many seconds a toolbox may take to be opened, and to be listed."""
logger = logging.getLogger("mcp_bridge.frameworks")


@asynccontextmanager
async def kept(boxes: Mapping[str, Toolbox], patience: float | None = PATIENCE) -> AsyncIterator[Keeper]:
    """Toolboxes, by what names them, open for the length of the block, which begins once each has been listed.

    One that cannot be opened or listed within `patience` seconds is given up, alone.
    """
    keeper = Keeper(boxes, patience)
    async with anyio.create_task_group() as tasks:
        for where, box in boxes.items():
            tasks.start_soon(keeper.keep, where, box)
        await keeper.listed()
        yield keeper
        tasks.cancel_scope.cancel()


async def served(
    boxes: Mapping[str, Toolbox], patience: float | None, offered: Callable[[Keeper], Offer], publish: Publish
) -> None:
    """Publish what is offered, and again after every change, until no toolbox is open any more.

    Raises SourceError with all problems where nothing is left to be offered.
    """
    async with kept(boxes, patience) as keeper:
        offer = offered(keeper)
        while keeper.is_open:
            publish(offer)
            await keeper.changed()
            offer = offered(keeper)
    if offer.problems and not offer.everything:
        raise SourceError("\n".join(offer.problems))
    publish(offer)


class Keeper:
    """What toolboxes offer now."""

    def __init__(self, boxes: Mapping[str, Toolbox], patience: float | None) -> None:
        self._patience = patience if patience is not None else math.inf
        self._tools: dict[str, list[Placed]] = {where: [] for where in boxes}
        self._problems: dict[str, list[str]] = {where: [] for where in boxes}
        self._open = set(boxes)
        self._waiting = set(boxes)
        self._all_listed = anyio.Event()
        self._news = anyio.Event()
        if not boxes:
            self._all_listed.set()

    @property
    def tools(self) -> list[Placed]:
        """The tools of all of them, with what names their toolbox."""
        return [tool for tools in self._tools.values() for tool in tools]

    @property
    def problems(self) -> list[str]:
        """A line for each toolbox that was given up, and for each of their tools that cannot be had."""
        return [line for lines in self._problems.values() for line in lines]

    @property
    def is_open(self) -> bool:
        """Whether any is open still."""
        return bool(self._open)

    async def listed(self) -> None:
        """Wait until each has been listed, or given up."""
        await self._all_listed.wait()

    async def changed(self) -> None:
        """Wait until there are other tools or problems than when this returned last, or when all had been listed."""
        await self._news.wait()
        self._news = anyio.Event()

    async def keep(self, where: str, box: Toolbox) -> None:
        """The life of one toolbox, until it is cancelled. Never raises."""
        with anyio.CancelScope(deadline=anyio.current_time() + self._patience) as scope:
            try:
                async with box:
                    await self._list(where, box)
                    scope.deadline = math.inf
                    self._has_spoken(where)
                    await self._follow(where, box)
            except BaseException as error:  # a stranger's
                if passes(error):
                    raise
                self._give_up(where, f"'{where}': {_text(error)}")
        if scope.cancelled_caught:
            late = f"'{where}' was not opened and listed within {self._patience:g} seconds"
            self._give_up(where, f"{late}. See what it waits for")

    async def _follow(self, where: str, box: Toolbox) -> None:
        """List it again whenever it has changed; where that fails, its tools stay as they were."""
        while True:
            await box.changed()
            try:
                with anyio.fail_after(self._patience):
                    await self._list(where, box)
            except Exception as error:
                self._problems[where] = [f"'{where}': {_text(error)}: its tools stay as they were"]
            self._news.set()

    async def _list(self, where: str, box: Toolbox) -> None:
        self._tools[where] = [(where, entry) for entry in await box.entries()]
        self._problems[where] = [f"'{where}': {line}" for line in getattr(box, "problems", ())]

    def _give_up(self, where: str, problem: str) -> None:
        """Its tools are gone, those of others stay."""
        self._open.discard(where)
        self._tools[where], self._problems[where] = [], [problem]
        if where in self._waiting:
            self._has_spoken(where)
        else:
            self._news.set()

    def _has_spoken(self, where: str) -> None:
        self._waiting.discard(where)
        if not self._waiting:
            self._all_listed.set()


def _text(error: BaseException) -> str:
    """What is wrong, in a line: ours as it is, and what is alone in a group by itself."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(_text(one) for one in error.exceptions)
    return str(error) if isinstance(error, SourceError) else described(error)
