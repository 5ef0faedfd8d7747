"""Offer: what a source publishes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mcp_bridge.contracts.prompt import PromptEntry
from mcp_bridge.contracts.resource import ResourceEntry, ResourceTemplate
from mcp_bridge.contracts.tool import ToolEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a source publishes, all of it at once; publishing again replaces it.

    `problems` has a line for each thing that the source would have published but could not.
    """

    tools: Sequence[ToolEntry] = ()
    resources: Sequence[ResourceEntry] = ()
    templates: Sequence[ResourceTemplate] = ()
    prompts: Sequence[PromptEntry] = ()
    problems: Sequence[str] = ()

    @property
    def everything(self) -> Sequence[ToolEntry | ResourceEntry | ResourceTemplate | PromptEntry]:
        """All entries of every kind."""
        return [*self.tools, *self.resources, *self.templates, *self.prompts]
