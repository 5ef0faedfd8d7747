"""Resources as data: single ones, and URI templates (MCP 2025-11-25 and 2026-07-28, server/resources)."""

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
    or a list of these. `size` is in bytes. `owner` is the name of the source of the entry; the registry sets it. Raises
    TypeError for a handler that is not callable.

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
    """Resources behind an RFC 6570 URI template, such as `users://{id}/profile`.

    `handler` takes the template's variables (text; a list of text for `{/path*}`) as its one positional argument, and
    otherwise works like that of a `ResourceEntry`. A variable never contains the steps `.` and `..`, a null byte or an
    absolute path. `completions` suggests values for variables. With `is_opaque`, only the text around the variables is
    matched, and the handler takes `{"uri": ...}`: another server reads the variables.

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
    """A function that completes one argument of a prompt or template, as an entry with a handler."""

    handler: Callable[[Any], Any]
    completed: PromptEntry | ResourceTemplate
