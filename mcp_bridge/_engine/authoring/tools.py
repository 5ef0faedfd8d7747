"""@tool turns a function into a tool. The schema comes from the author or from the signature."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

from mcp_bridge._contracts.tool import Tags, ToolEntry, ToolHints, add_hints, list_tags
from mcp_bridge._engine.authoring.functions import (
    attach_entry,
    bind_plain,
    get_function_name,
    infer_visible_signature,
    make_data_handler,
    make_typed_handler,
    read_declared_tasks,
)
from mcp_bridge._engine.decorators import F, FunctionDecorator
from mcp_bridge._engine.registry import ToolRegistry
from mcp_bridge._json_schema.callables import get_callable_name
from mcp_bridge._json_schema.headers import check_headers

if TYPE_CHECKING:
    from mcp_bridge._contracts.tasks import TaskMode, ToolTasks


@overload
def tool(
    function: F,
    /,
    *,
    name: str = "",
    description: str = "",
    input_schema: dict[str, Any] | None = None,
    output_schema: dict[str, Any] | None = None,
    tags: Tags | None = None,
    registry: ToolRegistry | None = None,
    title: str | None = None,
    annotations: dict[str, Any] | None = None,
    icons: list[dict[str, Any]] | None = None,
    meta: dict[str, Any] | None = None,
    read_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    open_world: bool | None = None,
    tasks: ToolTasks | TaskMode | None = None,
) -> F: ...
@overload
def tool(
    name: str = "",
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
    read_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    open_world: bool | None = None,
    tasks: ToolTasks | TaskMode | None = None,
) -> FunctionDecorator: ...
def tool(
    function: str | Callable[..., Any] = "",
    /,
    description: str = "",
    input_schema: dict[str, Any] | None = None,
    output_schema: dict[str, Any] | None = None,
    tags: Tags | None = None,
    registry: ToolRegistry | None = None,
    *,
    name: str = "",
    title: str | None = None,
    annotations: dict[str, Any] | None = None,
    icons: list[dict[str, Any]] | None = None,
    meta: dict[str, Any] | None = None,
    read_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    open_world: bool | None = None,
    tasks: ToolTasks | TaskMode | None = None,
) -> Any:
    """Turn a function into a tool, and register the tool in `registry` if there is one.

    Use it as a decorator, with or without arguments. The first argument may be the name. For an existing function, call
    `tool(function, name="plus")`.

    Name, description, schemas and parameter descriptions come from the signature and the docstring, and the function is
    called with keywords. With `input_schema`, the function receives the input data as its one argument instead, as
    always with `mcp_bridge.tool_use.tool`. In both forms, a parameter annotated `CallContext` receives the context of
    the call.

    `read_only`, `destructive`, `idempotent` and `open_world` are hints for clients, and become MCP's `annotations`.
    `tasks` says how its calls become tasks, where these are enabled: `optional`, `required`, `forbidden` or ToolTasks.

    The decorated function can be called as before, and has the attribute `tool_entry`. Raises ValueError if the name
    already exists in `registry` or `tasks` is invalid, and TypeError if no schema can be inferred, a `Header` is
    invalid or `tags` is text.

    >>> from mcp_bridge import ToolRegistry, tool
    >>> registry = ToolRegistry()
    >>> @tool(registry=registry)
    ... def add(a: int, b: int) -> int:
    ...     "Add two numbers."
    ...     return a + b
    >>> registry.get("add").description
    'Add two numbers.'
    >>> registry.invoke("add", {"a": 1, "b": 2}).data
    3
    """
    # The first argument is a function, or the name of the tool (see the overloads).
    if isinstance(function, str) and function and name:
        raise TypeError(f"a tool has one name, and was given two, {function!r} and {name!r}")
    hints = ToolHints(read_only=read_only, destructive=destructive, idempotent=idempotent, open_world=open_world)
    tool_tasks = read_declared_tasks(tasks)
    if isinstance(tags, str):
        raise TypeError(f"tags must be a list of texts, found {tags!r}")

    def decorate(function: Callable[..., Any], entry_name: str) -> Callable[..., Any]:
        entry = _build_tool_entry(function, entry_name, description, input_schema, output_schema)
        entry.tags = list_tags(tags)
        entry.title = title
        entry.annotations = add_hints(annotations, hints)
        entry.icons = list(icons or ())
        entry.meta = dict(meta or {})
        entry.tasks = tool_tasks
        if registry is not None:
            registry.register(entry)
        return attach_entry(function, "tool_entry", entry)

    if callable(function):
        return decorate(function, name)
    # Without a function, the first argument is the name, if any.
    return functools.partial(decorate, entry_name=function or name)


def _build_tool_entry(
    function: Callable[..., Any],
    name: str,
    description: str,
    input_schema: dict[str, Any] | None,
    output_schema: dict[str, Any] | None,
) -> ToolEntry:
    """Return a tool with a schema of the author, or with schemas from the signature."""
    name = name or get_function_name(function)
    if input_schema is not None:
        description = description or function.__doc__ or ""
        return ToolEntry(name, description, make_data_handler(function), input_schema, output_schema or {})
    signature = infer_visible_signature(function)
    for problem in check_headers(signature.input_schema):
        raise TypeError(f"{get_callable_name(function)}: {problem}")
    return ToolEntry(
        name,
        description or signature.description,
        make_typed_handler(function, signature, bind_plain(function, signature)),
        signature.input_schema,
        signature.output_schema if output_schema is None else output_schema,
    )
