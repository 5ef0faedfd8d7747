"""Offer: everything that a source publishes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mcp_bridge._contracts.prompt import PromptEntry
from mcp_bridge._contracts.resource import ResourceEntry, ResourceTemplate
from mcp_bridge._contracts.server_info import ServerInfo
from mcp_bridge._contracts.tool import ToolEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Everything that a source publishes. Publishing a new offer replaces the old one.

    `problems` has a line for each entry that the source could not publish, and `notes` one for each entry that it has
    changed to publish it. `server` is how the source describes the server; the settings take precedence. With
    `partial`, entries whose names other sources have are left out; without it, one such name rejects the whole offer.
    `is_repaired` if the source has checked the schemas of its tools itself, in a thread.
    """

    tools: Sequence[ToolEntry] = ()
    resources: Sequence[ResourceEntry] = ()
    templates: Sequence[ResourceTemplate] = ()
    prompts: Sequence[PromptEntry] = ()
    problems: Sequence[str] = ()
    notes: Sequence[str] = ()
    server: ServerInfo | None = None
    partial: bool = False
    is_repaired: bool = False

    @property
    def entries(self) -> Sequence[ToolEntry | ResourceEntry | ResourceTemplate | PromptEntry]:
        """All entries of every kind."""
        return [*self.tools, *self.resources, *self.templates, *self.prompts]
