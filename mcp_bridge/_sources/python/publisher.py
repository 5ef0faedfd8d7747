"""Publishes what the import of Python files has found, and keeps its lifespan and its toolboxes open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import anyio
from anyio.abc import TaskStatus

from mcp_bridge._contracts.source import Offer, Publish
from mcp_bridge._integrations.frameworks.discovery import remove_duplicates
from mcp_bridge._integrations.frameworks.toolboxes import OpenToolboxes, Toolbox, open_toolboxes
from mcp_bridge._sources.python.lifespan import run_with_lifespan


class LoadResult(NamedTuple):
    """The result of importing all files. If it has `errors`, a reload does not publish it."""

    offer: Offer
    toolboxes: Mapping[str, Toolbox]
    errors: Sequence[str]


class OfferPublisher:
    """Publishes the result of each import, with the tools of its toolboxes.

    Each result has a task, which keeps its lifespan and its toolboxes open until the next result takes its place.
    """

    def __init__(self, publish: Publish) -> None:
        self._publish = publish
        self._last_scope = anyio.CancelScope()
        # The last offer without the errors of its import, which the next import replaces.
        self._offer = Offer()
        self._errors: Sequence[str] = ()

    async def publish(self, result: LoadResult, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Publish an offer in place of the last one, and end the task of the last one.

        The task has started once the offer is published. An empty offer is published too, because the next edit may add
        a tool.
        """
        with anyio.CancelScope() as scope:
            async with run_with_lifespan(result.offer) as offer, open_toolboxes(result.toolboxes) as toolboxes:
                self._last_scope.cancel()
                self._last_scope = scope
                self._errors = result.errors
                self._publish_offer(add_toolboxes(offer, toolboxes))
                task_status.started()
                while toolboxes.is_open:
                    await toolboxes.wait_for_change()
                    self._publish_offer(add_toolboxes(offer, toolboxes))
                if offer is not result.offer:
                    await anyio.sleep_forever()

    def report_errors(self, errors: Sequence[str]) -> None:
        """Publish the last offer again, with the errors of a reload as its problems."""
        self._errors = [f"{error}: the tools stay as they were" for error in errors]
        self._publish_offer(self._offer)

    def _publish_offer(self, offer: Offer) -> None:
        problems = [problem for problem in offer.problems if problem not in self._errors]
        self._offer = replace(offer, problems=problems)
        self._publish(replace(offer, problems=[*problems, *self._errors]))


def add_toolboxes(offer: Offer, toolboxes: OpenToolboxes) -> Offer:
    """Return the offer with the tools and the problems of toolboxes."""
    tools, duplicates = remove_duplicates(toolboxes.tools, get_taken_names(offer))
    problems = [*offer.problems, *toolboxes.problems, *duplicates]
    return toolboxes.add_to(replace(offer, tools=[*offer.tools, *tools], problems=problems))


def get_taken_names(offer: Offer) -> dict[str, str]:
    """Return the names of the offer's own tools, each with a description of its owner."""
    return {entry.name: "the file itself" for entry in offer.tools}
