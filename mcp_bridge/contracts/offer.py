"""Offer: everything that a source publishes."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_bridge.contracts.prompt import PromptEntry
from mcp_bridge.contracts.record import record
from mcp_bridge.contracts.resource import ResourceEntry, ResourceTemplate
from mcp_bridge.contracts.tool import ToolEntry


@record
class Offer:
    """Everything that a source publishes. Publishing a new offer replaces the old one.

    `problems` has a line for each entry that the source could not publish.
    """

    tools: Sequence[ToolEntry] = ()
    resources: Sequence[ResourceEntry] = ()
    templates: Sequence[ResourceTemplate] = ()
    prompts: Sequence[PromptEntry] = ()
    problems: Sequence[str] = ()

    @property
    def entries(self) -> Sequence[ToolEntry | ResourceEntry | ResourceTemplate | PromptEntry]:
        """All entries of every kind."""
        return [*self.tools, *self.resources, *self.templates, *self.prompts]
