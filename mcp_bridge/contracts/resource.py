"""Resources as data: one at a URI, and many behind a URI template (MCP 2025-11-25 and 2026-07-28, server/resources)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from mcp_bridge.contracts.completion import Completions


@dataclass
class ResourceEntry:
    """A resource at a URI that does not vary.

    `handler` gets one positional argument, `{"uri": ...}`, and, where it has a parameter annotated `CallContext`,
    the running call's context. It may be async. It answers with text, bytes, a JSON value, an `EmbeddedResource`,
    or a list of these. `size` is in bytes. `owner` names the source that published it; the registry sets it. Raises
    TypeError for a handler that cannot be called.
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
            raise TypeError(f"resource '{self.uri}' needs a handler that can be called")


@dataclass
class ResourceTemplate:
    """Resources behind an RFC 6570 URI template, such as `users://{id}/profile`.

    `handler` gets one positional argument, the template's variables (text; a list of text for `{/path*}`), and
    answers as that of a `ResourceEntry` does. A variable never holds `..`, a null byte or an absolute path.
    `completions` has what may be offered for a variable.
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
    owner: str = ""

    def __post_init__(self) -> None:
        if not callable(self.handler):
            raise TypeError(f"resource template '{self.uri_template}' needs a handler that can be called")
