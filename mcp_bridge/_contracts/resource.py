"""Defines the entries of resources and of URI templates (MCP 2025-11-25 and 2026-07-28, server/resources)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from mcp_bridge._contracts.prompt import Completions, PromptEntry


@dataclass
class ResourceEntry:
    """A resource at a fixed URI.

    `handler` takes `{"uri": ...}` as its one positional argument. If it has a parameter annotated `CallContext`, it
    also receives the context of the call. It may be async. It returns text, bytes, a JSON value, an `EmbeddedResource`,
    or a list of these. `size` is in bytes. The registry sets `owner`, the name of the source. Raises TypeError for a
    handler that is not callable.

    >>> ResourceEntry("config://app", lambda data: {"theme": "dark"}, mime_type="application/json").uri
    'config://app'
    """

    uri: str
    handler: Callable[..., Any]
    name: str = ""
    description: str = ""
    _: KW_ONLY
    mime_type: str | None = None
    title: str | None = None
    size: int | None = None
    annotations: dict[str, Any] = field(default_factory=dict)
    icons: list[dict[str, Any]] = field(default_factory=list)
    meta: dict[str, Any] = field(default_factory=dict)
    owner: str = ""

    def __post_init__(self) -> None:
        if not callable(self.handler):
            raise TypeError(f"resource '{self.uri}' needs a callable handler")


@dataclass
class ResourceTemplate:
    """The resources of an RFC 6570 URI template, such as `users://{id}/profile`.

    `handler` takes the template's variables as its one positional argument, and otherwise works like that of a
    `ResourceEntry`. The values are text, or a list of text for `{/path*}`. A value never contains the steps `.` and
    `..`, a null byte or an absolute path. `completions` suggests values for variables. With `is_opaque`, another server
    reads the variables: only the text around them is matched, and the handler takes `{"uri": ...}`.

    >>> ResourceTemplate("users://{id}/profile", lambda data: f"User {data['id']}").uri_template
    'users://{id}/profile'
    """

    uri_template: str
    handler: Callable[..., Any]
    name: str = ""
    description: str = ""
    _: KW_ONLY
    mime_type: str | None = None
    title: str | None = None
    annotations: dict[str, Any] = field(default_factory=dict)
    icons: list[dict[str, Any]] = field(default_factory=list)
    meta: dict[str, Any] = field(default_factory=dict)
    completions: Mapping[str, Completions] = field(default_factory=dict)
    is_opaque: bool = False
    owner: str = ""

    def __post_init__(self) -> None:
        if not callable(self.handler):
            raise TypeError(f"resource template '{self.uri_template}' needs a callable handler")


@dataclass(frozen=True)
class CompletionEntry:
    """A function that completes an argument of `completed`, as an entry, so that the pipeline can run it."""

    handler: Callable[[Any], Any]
    completed: PromptEntry | ResourceTemplate
