"""Defines the entries of prompts, and their arguments (MCP 2025-11-25 and 2026-07-28, server/prompts)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

Completions = Sequence[str] | Callable[..., Any]
"""All values of an argument, or a function that suggests values.

The function receives the text typed so far. If it has a second parameter, that receives the completed arguments, a
mapping of text. It may be async. The server ranks and truncates the values, unless the function returns MCP's
completion object, a mapping with `values`, `total` and `hasMore`.
"""


@dataclass(frozen=True, slots=True)
class PromptArgument:
    """One argument of a prompt. Clients always send its value as text."""

    name: str
    description: str = ""
    required: bool = False
    title: str | None = None


@dataclass
class PromptEntry:
    """A prompt.

    `handler` takes the arguments (a mapping of text) as its one positional argument. If it has a parameter annotated
    `CallContext`, it also receives the context of the call. It may be async. It returns text, a content block, a
    `Message`, or a list of these. Text and blocks become messages of the user. `completions` suggests values for
    arguments. Raises TypeError for a handler that is not callable, and for arguments of another type.

    >>> city = PromptArgument("city", required=True)
    >>> PromptEntry("trip", lambda data: f"Plan a trip to {data['city']}.", arguments=[city]).name
    'trip'
    """

    name: str
    handler: Callable[..., Any]
    description: str = ""
    arguments: Sequence[PromptArgument] = ()
    _: KW_ONLY
    title: str | None = None
    icons: list[dict[str, Any]] = field(default_factory=list)
    meta: dict[str, Any] = field(default_factory=dict)
    completions: Mapping[str, Completions] = field(default_factory=dict)
    owner: str = ""

    def __post_init__(self) -> None:
        is_valid = all(isinstance(argument, PromptArgument) for argument in self.arguments)
        if not is_valid or not callable(self.handler):
            raise TypeError(f"prompt '{self.name}' needs a callable handler, and PromptArguments as its arguments")
