"""Types of the decorators `registry.tool`, `registry.resource` and `registry.prompt`.

They take the arguments of `mcp_bridge.tool`, `resource` and `prompt`, except `registry`. Type checkers of users read
these signatures.
"""

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
    """The type of `registry.tool`."""

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
    """The type of `registry.resource`."""

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
    """The type of `registry.prompt`."""

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
    """Return `tool`, `resource` or `prompt`, by its name.

    The modules of these decorators import the registry, so the registry can import them only late.
    """
    decorator: Callable[..., Any] = load_object(f"mcp_bridge._engine.authoring:{name}")
    return decorator
