"""Completions: suggested values for an argument of a prompt or a variable of a URI template."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mcp_bridge._contracts.prompt import PromptEntry
from mcp_bridge._contracts.resource import ResourceTemplate


@dataclass(frozen=True)
class CompletionEntry:
    """A function that completes one argument of a prompt or template, as an entry whose handler can be called."""

    handler: Callable[[Any], Any]
    completed: PromptEntry | ResourceTemplate
