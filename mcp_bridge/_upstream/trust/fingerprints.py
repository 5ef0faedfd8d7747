"""Describes the definitions of servers, and computes their fingerprints, by which changes are noticed.

A definition is what a model, a client or a user sees of an entry. Its fingerprint is the SHA-256 of its JSON with
sorted keys and without spaces. DefinitionGuard compares definitions, and DefinitionLock stores them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from mcp_bridge._contracts.prompt import PromptEntry
from mcp_bridge._contracts.resource import ResourceEntry, ResourceTemplate
from mcp_bridge._contracts.source import Offer
from mcp_bridge._contracts.tool import ToolEntry

PublishedEntry = ToolEntry | PromptEntry | ResourceEntry | ResourceTemplate
KINDS = {
    "tools": "tool", "prompts": "prompt", "resources": "resource", "templates": "resource template",
    "instructions": "text",
}  # fmt: skip
"""The kinds of definitions in the lock file, and their names in messages."""


class DefinitionKey(NamedTuple):
    """The key of a definition of one server: its kind (see KINDS), and its name or URI."""

    kind: str
    name: str

    def __str__(self) -> str:
        return self.name if self.kind == "tools" else f"{KINDS[self.kind]} {self.name}"

    @property
    def title(self) -> str:
        """The name for messages."""
        return f"{KINDS[self.kind]} '{self.name}'"


INSTRUCTIONS = DefinitionKey("instructions", "instructions")
"""The key of the instructions of a server, which have no name."""


def describe_definition(entry: PublishedEntry) -> dict[str, Any]:
    """Return the parts of an entry by which a model, a client or a user decides, without empty ones."""
    definition: dict[str, Any] = {"title": entry.title, "description": entry.description, "icons": entry.icons}
    definition["_meta"] = entry.meta
    if isinstance(entry, ToolEntry):
        definition |= {"name": entry.name, "inputSchema": entry.input_schema, "outputSchema": entry.output_schema}
        definition["annotations"] = entry.annotations
    elif isinstance(entry, PromptEntry):
        arguments = [
            {
                "name": argument.name,
                "title": argument.title,
                "description": argument.description,
                "required": argument.required,
            }
            for argument in entry.arguments
        ]
        definition |= {"name": entry.name, "arguments": arguments}
    else:
        definition |= {"uri": make_key(entry).name, "name": entry.name, "mimeType": entry.mime_type}
        # `lastModified` changes with the content of a resource.
        definition["annotations"] = {key: value for key, value in entry.annotations.items() if key != "lastModified"}
    return {key: value for key, value in definition.items() if value}


def describe_offer(offer: Offer) -> dict[DefinitionKey, dict[str, Any]]:
    """Return the definitions of an offer. If two entries have the same name, only the first is published.

    Of resources, only the pages (`ui://`) are included, which clients show to users. Others are data, and may change.
    """
    definitions: dict[DefinitionKey, dict[str, Any]] = {}
    pages = [entry for entry in offer.resources if is_page(entry.uri)]
    entries: list[PublishedEntry] = [*offer.tools, *offer.prompts, *pages, *offer.templates]
    for entry in entries:
        definitions.setdefault(make_key(entry), describe_definition(entry))
    if offer.server is not None and offer.server.instructions:
        definitions[INSTRUCTIONS] = {"instructions": offer.server.instructions}
    return definitions


def is_page(uri: str) -> bool:
    """Return whether a resource is a page for users (the extension MCP Apps)."""
    return uri.lower().startswith("ui:")


def make_key(entry: PublishedEntry) -> DefinitionKey:
    """Return the key of the entry's definition."""
    if isinstance(entry, ToolEntry):
        return DefinitionKey("tools", entry.name)
    if isinstance(entry, PromptEntry):
        return DefinitionKey("prompts", entry.name)
    if isinstance(entry, ResourceTemplate):
        return DefinitionKey("templates", entry.uri_template)
    return DefinitionKey("resources", entry.uri)


def compute_fingerprint(definition: Mapping[str, Any]) -> str:
    """Return the fingerprint of a definition. Raises ValueError if JSON cannot express it."""
    text = json.dumps(definition, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()
