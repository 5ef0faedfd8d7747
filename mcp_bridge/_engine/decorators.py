"""The types of the decorators of a registry. They are those of `mcp_bridge`, with this registry as their `registry`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar, Unpack, overload

from mcp_bridge._contracts.prompt import Completions
from mcp_bridge._contracts.tool import Tags, ToolHints
from mcp_bridge._engine.plugins import load_object

F = TypeVar("F", bound=Callable[..., Any])


class FunctionDecorator(Protocol):
    """A decorator with the type of the decorated function."""

    def __call__(self, function: F, /) -> F: ...


class ToolDecorator(Protocol):
    """`mcp_bridge.tool` for one registry."""

    @overload
    def __call__(
        self,
        function: F,
        /,
        *,
        name: str = "",
        description: str = "",
        input_schema: dict[str, Any] | None = None,
        output_schema: dict[str, Any] | None = None,
        tags: Tags | None = None,
        title: str | None = None,
        annotations: dict[str, Any] | None = None,
        icons: list[dict[str, Any]] | None = None,
        meta: dict[str, Any] | None = None,
        **hints: Unpack[ToolHints],
    ) -> F: ...
    @overload
    def __call__(
        self,
        name: str = "",
        description: str = "",
        input_schema: dict[str, Any] | None = None,
        output_schema: dict[str, Any] | None = None,
        tags: Tags | None = None,
        *,
        title: str | None = None,
        annotations: dict[str, Any] | None = None,
        icons: list[dict[str, Any]] | None = None,
        meta: dict[str, Any] | None = None,
        **hints: Unpack[ToolHints],
    ) -> FunctionDecorator: ...


class ResourceDecorator(Protocol):
    """`mcp_bridge.resource` for one registry."""

    def __call__(
        self,
        uri: str,
        *,
        name: str = "",
        description: str = "",
        mime_type: str | None = None,
        title: str | None = None,
        size: int | None = None,
        annotations: dict[str, Any] | None = None,
        icons: list[dict[str, Any]] | None = None,
        meta: dict[str, Any] | None = None,
        completions: Mapping[str, Completions] | None = None,
    ) -> FunctionDecorator: ...


class PromptDecorator(Protocol):
    """`mcp_bridge.prompt` for one registry."""

    @overload
    def __call__(
        self,
        function: F,
        /,
        *,
        name: str = "",
        description: str = "",
        title: str | None = None,
        icons: list[dict[str, Any]] | None = None,
        meta: dict[str, Any] | None = None,
        completions: Mapping[str, Completions] | None = None,
    ) -> F: ...
    @overload
    def __call__(
        self,
        name: str = "",
        description: str = "",
        *,
        title: str | None = None,
        icons: list[dict[str, Any]] | None = None,
        meta: dict[str, Any] | None = None,
        completions: Mapping[str, Completions] | None = None,
    ) -> FunctionDecorator: ...


def load_decorator(name: str) -> Callable[..., Any]:
    """Return `tool`, `resource` or `prompt`. They import the registry, so they are imported when first used."""
    decorator: Callable[..., Any] = load_object(f"mcp_bridge._engine.authoring:{name}")
    return decorator
