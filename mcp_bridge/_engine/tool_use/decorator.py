"""The decorator `mcp_bridge.tool_use.tool` (tool_use API, "tool (Decorator)")."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from mcp_bridge._contracts.tool import Tags, ToolEntry, list_tags
from mcp_bridge._engine.authoring.functions import attach_entry, read_declared_tasks
from mcp_bridge._engine.decorators import FunctionDecorator
from mcp_bridge._engine.registry import ToolRegistry

if TYPE_CHECKING:
    from mcp_bridge._contracts.tasks import TaskMode, ToolTasks


def tool(
    name: str,
    description: str = "",
    input_schema: dict[str, Any] | None = None,
    output_schema: dict[str, Any] | None = None,
    tags: Tags | None = None,
    registry: ToolRegistry | None = None,
    *,
    title: str | None = None,
    annotations: dict[str, Any] | None = None,
    icons: list[dict[str, Any]] | None = None,
    meta: dict[str, Any] | None = None,
    tasks: ToolTasks | TaskMode | None = None,
) -> FunctionDecorator:
    """Turn a function of the input data into a tool, and register the tool in `registry` if there is one.

    The function always receives the input data as its one positional argument, whatever its signature is.
    `mcp_bridge.tool` reads the signature instead, unless it has an `input_schema`. A parameter annotated `CallContext`
    receives the context of the call.

    The decorated function can be called as before, and has the attribute `tool_entry`, whose `handler` is the function
    itself. Raises ValueError if the name already exists in `registry` or `tasks` is invalid.

    >>> from mcp_bridge.tool_use import tool
    >>> @tool("double", input_schema={"type": "object", "required": ["value"]})
    ... def double(data):
    ...     return data["value"] * 2
    >>> double.tool_entry.name, double({"value": 2})
    ('double', 4)
    """
    if not isinstance(name, str):
        raise TypeError("mcp_bridge.tool_use.tool needs a name: @tool(name=...). mcp_bridge.tool works without one")

    tool_tasks = read_declared_tasks(tasks)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        entry = ToolEntry(
            name,
            description or function.__doc__ or "",
            function,
            input_schema or {},
            output_schema or {},
            list_tags(tags),
            title=title,
            annotations=dict(annotations or {}),
            icons=list(icons or ()),
            meta=dict(meta or {}),
            tasks=tool_tasks,
        )
        if registry is not None:
            registry.register(entry)
        return attach_entry(function, "tool_entry", entry)

    return cast(FunctionDecorator, decorate)
