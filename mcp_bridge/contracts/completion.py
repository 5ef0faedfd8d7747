"""Completions: suggested values for an argument of a prompt or a variable of a URI template."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp_bridge.contracts.prompt import PromptEntry
    from mcp_bridge.contracts.resource import ResourceTemplate

Completions = Sequence[str] | Callable[..., Any]
"""All values, or a function that returns them. The function receives the text typed so far and, if it has a second
parameter, the arguments that are already known (a mapping of text). It may be async. The server ranks and truncates
the values, unless the function returns MCP's completion object, a mapping with `values`, `total` and `hasMore`."""


@dataclass(frozen=True)
class CompletionEntry:
    """A function that completes one argument of a prompt or template, as an entry whose handler can be called."""

    handler: Callable[[Any], Any]
    completed: PromptEntry | ResourceTemplate
